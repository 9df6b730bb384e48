"""Small data sets in the true formats."""

import hashlib
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from scalednl.lab.data import cifar
from scalednl.lab.data.catalogue import CIFAR10_INFO, CIFAR100_INFO, DataInfo
from scalednl.lab.data.splits import Bytes

Files = dict[str, bytes]


def random_images(count: int, side: int, seed: int = 0) -> Bytes:
    """Noise."""
    return np.random.default_rng(seed).integers(0, 256, (count, side, side, 3), dtype=np.uint8)


def small_cifar(coarse: bool = False, records: int = 3) -> tuple[DataInfo, Files]:
    """A CIFAR of a few images a file, and an info that knows its hashes."""
    info = CIFAR100_INFO if coarse else CIFAR10_INFO
    assert info.cifar is not None
    draw = np.random.default_rng(1)
    files = {}
    for index, name in enumerate(info.cifar.md5):
        labels = draw.integers(0, len(info.class_names), records)
        extra = draw.integers(0, 20, records) if coarse else None
        files[name] = cifar.encode(random_images(records, 32, index), labels, extra)
    md5 = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
    return replace(info, cifar=replace(info.cifar, md5=md5), download_bytes=1000), files


def python_version(info: DataInfo, files: Files) -> Files:
    """The same as pickles, with the keys and types of the official ones."""
    assert info.cifar is not None
    pickles = {}
    for name, content in files.items():
        split = cifar.decode(content, info, name)
        planes = split.images.transpose(0, 3, 1, 2).reshape(len(split), -1)
        batch = {
            b"batch_label": b"a batch",
            b"data": np.ascontiguousarray(planes),
            b"filenames": [b"image_%d.png" % index for index in range(len(split))],
        }
        if split.coarse is None:
            batch[b"labels"] = split.labels.tolist()
        else:
            batch |= {
                b"fine_labels": split.labels.tolist(),
                b"coarse_labels": split.coarse.tolist(),
            }
        pickles[info.cifar.pickles[name]] = pickle.dumps(batch, protocol=2)
    return pickles


def npm_version(info: DataInfo, files: Files) -> Files:
    """The same as PNG atlases and lists of labels."""
    assert info.cifar is not None and info.npm is not None  # noqa: PT018
    package = {}
    for split, names in (("train", info.cifar.train), ("test", info.cifar.test)):
        labels = []
        for name in names:
            decoded = cifar.decode(files[name], info, name)
            labels += decoded.labels.tolist()
            atlas = Image.fromarray(decoded.images.reshape(len(decoded), 1024, 3))
            package[info.npm.atlases[name]] = encoded(atlas, "PNG")
        package[info.npm.labels[split]] = json.dumps(labels).encode()
    return package


def tiny_files(classes: int = 2, train: int = 3, test: int = 2) -> Files:
    """A Tiny-ImageNet; the first image of every class is greyscale."""
    wnids = [f"n{number:08}" for number in range(classes)]
    words = [f"{wnid}\tthing {index}, object" for index, wnid in enumerate(wnids)]
    files = {
        "wnids.txt": "\n".join(wnids).encode(),
        "words.txt": "\n".join(words).encode(),
    }
    lines = []
    for index, wnid in enumerate(wnids):
        for number in range(train):
            picture = Image.fromarray(random_images(1, 64, 100 * index + number)[0])
            picture = picture if number else picture.convert("L")
            files[f"train/{wnid}/images/{wnid}_{number}.JPEG"] = encoded(picture, "JPEG")
        for number in range(test):
            name = f"val_{index * test + number}.JPEG"
            picture = Image.fromarray(random_images(1, 64, 50 + index * test + number)[0])
            files[f"val/images/{name}"] = encoded(picture, "JPEG")
            lines.append(f"{name}\t{wnid}\t0\t0\t62\t62")
    files["val/val_annotations.txt"] = "\n".join(lines).encode()
    return files


def encoded(picture: Image.Image, kind: str) -> bytes:
    """A picture as a file."""
    buffer = io.BytesIO()
    picture.save(buffer, kind)
    return buffer.getvalue()


def tar(path: Path, files: Mapping[str, bytes], folder: str = "folder") -> Path:
    """A tar archive, compressed as its name says."""
    mode = {"gz": "w:gz", "tgz": "w:gz", "xz": "w:xz", "bz2": "w:bz2"}.get(path.suffix[1:], "w")
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def zipped(path: Path, files: Mapping[str, bytes], folder: str = "tiny-imagenet-200") -> Path:
    """A zip archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(f"{folder}/{name}", content)
    return path


def unpacked(path: Path, files: Mapping[str, bytes]) -> Path:
    """A folder."""
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path
