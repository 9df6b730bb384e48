"""CIFAR in the official binary layout, and the other forms of it turned into that layout.

A record is the label (CIFAR-100: the coarse label before it), then 3072 bytes of planar RGB.
Whatever form the data come in, they are stored as these records, so that one hash a file tells
whether every label and pixel is right.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import numpy as np

from scalednl.lab.data.archives import read_members
from scalednl.lab.data.catalogue import DataInfo, NpmMirror
from scalednl.lab.data.errors import DataError
from scalednl.lab.data.image_file import read_picture
from scalednl.lab.data.pickles import read_batch
from scalednl.lab.data.splits import Bytes, Labels, Split

SIDE = 32
PIXELS = 3 * SIDE * SIDE
MAX_RECORDS = 50_000
MAX_LABELS_JSON = 2**20
MAX_BYTES = MAX_RECORDS * (PIXELS + 2) + 8 * 2**20
"""Of one file in any form: its pixels, and room for names and labels"""


def encode(images: Bytes, labels: Labels, coarse: Labels | None = None) -> bytes:
    """Records of images (count, 32, 32, 3) and labels."""
    columns = [] if coarse is None else [coarse.astype(np.uint8)[:, None]]
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), PIXELS)
    return np.hstack([*columns, labels.astype(np.uint8)[:, None], planes]).tobytes()


def decode(content: bytes, info: DataInfo, name: str) -> Split:
    """Images and labels of a binary file."""
    assert info.cifar is not None
    width = PIXELS + (2 if info.cifar.coarse else 1)
    if not content or len(content) % width:
        raise DataError(
            f"{name} has {len(content):,} bytes, which is no whole number of {info.title} records "
            f"of {width}: it is cut off, or another file"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, width)
    labels = records[:, -PIXELS - 1].astype(np.int64)
    coarse = records[:, 0].astype(np.int64) if info.cifar.coarse else None
    _check_labels(labels, len(info.class_names), name)
    if coarse is not None:
        _check_labels(coarse, len(info.coarse_names), name)
    planes = records[:, -PIXELS:].reshape(-1, 3, SIDE, SIDE)
    return Split(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels, coarse)


def decode_splits(files: Mapping[str, bytes], info: DataInfo) -> dict[str, Split]:
    """The training and the test split of the binary files."""
    assert info.cifar is not None
    return {
        split: _join([decode(files[name], info, name) for name in names])
        for split, names in (("train", info.cifar.train), ("test", info.cifar.test))
    }


def read_binary_files(source: Path, info: DataInfo) -> dict[str, bytes]:
    """The binary files from an archive or folder of the binary, the python or the npm version."""
    assert info.cifar is not None
    wanted = {*info.cifar.md5, *info.cifar.pickles.values()}
    if info.npm is not None:
        wanted |= {*info.npm.atlases.values(), *info.npm.labels.values()}
    found: dict[str, bytes] = {}
    for path, content in read_members(
        source, lambda path: MAX_BYTES if PurePosixPath(path).name in wanted else None
    ):
        name = PurePosixPath(path).name
        if name in found:
            raise DataError(f"{source} holds {name} more than once: give a folder with one of them")
        found[name] = content
    return _as_binary(found, info, source)


def check_hashes(files: Mapping[str, bytes], info: DataInfo, source: Path) -> None:
    """Refuse files that are not, byte for byte, the official ones."""
    assert info.cifar is not None
    for name, right in info.cifar.md5.items():
        if hashlib.md5(files[name], usedforsecurity=False).hexdigest() != right:
            raise DataError(
                f"{source}: {name} is not the official file of {info.title} (its md5 should be "
                f"{right}): it is damaged, or another file under this name; get it again"
            )


def _as_binary(found: Mapping[str, bytes], info: DataInfo, source: Path) -> dict[str, bytes]:
    cifar, npm = info.cifar, info.npm
    assert cifar is not None
    forms = {"binary": set(cifar.md5), "python": set(cifar.pickles.values())}
    if npm is not None:
        forms["npm"] = {*npm.atlases.values(), *npm.labels.values()}
    # The form of which most is there, so that a missing file is named in the right one.
    form = max(forms, key=lambda form: len(forms[form] & set(found)) / len(forms[form]))
    missing = sorted(forms[form] - set(found))
    if len(missing) == len(forms[form]):
        raise DataError(
            f"{source} holds no file of {info.title}, neither of the binary version "
            f"({', '.join(sorted(cifar.md5))}) nor of the python version: name the archive itself, "
            "or the folder with these files"
        )
    if missing:
        raise DataError(
            f"{source} lacks {', '.join(missing)} of {info.title}'s {form} version: get it again"
        )
    if form == "binary":
        return {name: found[name] for name in cifar.md5}
    if form == "python":
        return {name: _from_pickle(found[cifar.pickles[name]], info, name) for name in cifar.md5}
    assert npm is not None
    return _from_atlases(found, info, npm)


def _from_pickle(content: bytes, info: DataInfo, name: str) -> bytes:
    assert info.cifar is not None
    pickle = info.cifar.pickles[name]
    batch = read_batch(content, pickle)
    label_key = "fine_labels" if info.cifar.coarse else "labels"
    labels = batch.labels(label_key, len(info.class_names))
    coarse = batch.labels("coarse_labels", len(info.coarse_names)) if info.cifar.coarse else None
    images = batch.images(PIXELS).reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    if any(len(values) != len(images) for values in (labels, coarse) if values is not None):
        raise DataError(f"{pickle} has {len(images)} images and another number of labels")
    return encode(images, labels, coarse)


def _from_atlases(found: Mapping[str, bytes], info: DataInfo, npm: NpmMirror) -> dict[str, bytes]:
    """Row i of an atlas is image i: its 1024 pixels row by row."""
    assert info.cifar is not None
    files = {}
    for split, names in (("train", info.cifar.train), ("test", info.cifar.test)):
        labels = _labels_json(found[npm.labels[split]], npm.labels[split], len(info.class_names))
        atlases = [_atlas(found[npm.atlases[name]], npm.atlases[name]) for name in names]
        if sum(len(images) for images in atlases) != len(labels):
            raise DataError(f"{npm.labels[split]} has {len(labels)} labels, not one for each image")
        first = 0
        for name, images in zip(names, atlases, strict=True):
            files[name] = encode(images, labels[first : first + len(images)])
            first += len(images)
    return {name: files[name] for name in info.cifar.md5}


def _atlas(content: bytes, name: str) -> Bytes:
    pixels = read_picture(content, "PNG", name, SIDE * SIDE, range(1, MAX_RECORDS + 1))
    return pixels.reshape(-1, SIDE, SIDE, 3)


def _labels_json(content: bytes, name: str, classes: int) -> Labels:
    try:
        if len(content) > MAX_LABELS_JSON:
            raise ValueError(f"{len(content):,} bytes")
        values = json.loads(content)
        labels = np.array(values)
        if labels.ndim != 1 or labels.dtype.kind != "i":
            raise ValueError("not a list of whole numbers")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} is not a list of labels ({error}): get it again") from error
    _check_labels(labels, classes, name)
    return labels


def _check_labels(labels: Labels, classes: int, name: str) -> None:
    if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
        wrong = int(np.flatnonzero((labels < 0) | (labels >= classes))[0])
        raise DataError(
            f"{name}: image {wrong} has label {int(labels[wrong])}, and there are {classes} "
            "classes: the file is damaged, or of another data set"
        )


def _join(splits: list[Split]) -> Split:
    coarse = [split.coarse for split in splits if split.coarse is not None]
    return Split(
        np.concatenate([split.images for split in splits]),
        np.concatenate([split.labels for split in splits]),
        np.concatenate(coarse) if coarse else None,
    )
