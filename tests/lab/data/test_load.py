"""Decoded arrays are used if they are valid, and decoded again if not."""

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scalednl.errors import UsageError
from scalednl.lab.config import FolderConfig, PairsConfig
from scalednl.lab.data import load
from scalednl.lab.data.arrays import open_arrays
from scalednl.lab.data.load import load_data, load_splits
from tests.lab.data.builders import image_folder, stored


def test_arrays_that_cannot_be_stored_are_decoded_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that may only be read, loading warns and works."""
    root, data = stored(tmp_path, "cifar10")
    shutil.rmtree(root / data.name / "arrays")

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(root))

    monkeypatch.setattr(load, "write_arrays", refuse)
    with pytest.warns(UserWarning, match="not stored"):
        assert len(load_splits(root, data)["train"]) == 15


def test_two_processes_that_build_at_once_agree(tmp_path: Path) -> None:
    """Four processes that find no cache all load the same pixels, and leave a valid one."""
    root, data = stored(tmp_path, "tiny")
    shutil.rmtree(root / data.name / "arrays")
    code = (
        "import hashlib\n"
        "from scalednl.lab.data import load_data\n"
        f"data = load_data('tiny-imagenet', {str(root)!r})\n"
        "print(hashlib.sha256(data.train.images.tobytes()).hexdigest())\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(4)
    ]
    answers = {process.communicate(timeout=60)[0] for process in processes}
    assert [process.returncode for process in processes] == [0] * 4
    assert len(answers) == 1
    open_arrays(root / data.name)


def test_a_folder_takes_its_own_options(tmp_path: Path) -> None:
    """And no others; its images are loaded by the same function as any data set."""
    pets = image_folder(tmp_path / "pets", {"cat": 3, "dog": 3})
    data = load_data(f"folder:{pets}", str(tmp_path / "root"), FolderConfig(side=10))
    assert data.train.images.shape == (4, 10, 10, 3)
    assert list(data.class_names) == ["cat", "dog"]
    with pytest.raises(UsageError, match="does not take these options: PairsConfig"):
        load_data(f"folder:{pets}", tmp_path / "root", PairsConfig())
    with pytest.raises(UsageError, match="pairs does not take these options: FolderConfig"):
        load_data("pairs", None, FolderConfig())
