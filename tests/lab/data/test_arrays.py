"""Stored arrays are used only if they are valid and belong to the files."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from scalednl.lab.data.arrays import StaleError, open_arrays
from scalednl.lab.data.load import load_splits
from tests.lab.data.builders import stored


def _damage(folder: Path) -> None:
    path = folder / "arrays" / "train_images.npy"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def _touch(folder: Path) -> None:
    path = next((folder / "files").iterdir())
    os.utime(path, ns=(1, 1))


STALE = {
    "damaged": (_damage, r"train_images\.npy is damaged"),
    "cut off": (
        lambda f: (f / "arrays" / "test_labels.npy").write_bytes(b"\x93NUMPY"),
        "cannot be opened",
    ),
    "missing": (lambda f: shutil.rmtree(f / "arrays"), "are missing"),
    "header": (lambda f: (f / "arrays" / "arrays.json").write_text("{"), "arrays.json is damaged"),
    "stale": (_touch, "have changed"),
}


@pytest.mark.parametrize("case", STALE)
def test_bad_arrays_are_decoded_again(tmp_path: Path, case: str) -> None:
    """A damaged, missing or stale cache is decoded again, to the same pixels."""
    root, data = stored(tmp_path, "cifar10")
    good = load_splits(root, data)["train"].images.copy()
    change, said = STALE[case]
    change(root / data.name)
    with pytest.raises(StaleError, match=said):
        open_arrays(root / data.name)
    assert np.array_equal(load_splits(root, data)["train"].images, good)
    assert np.array_equal(open_arrays(root / data.name)["train"].images, good)
