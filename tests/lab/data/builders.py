"""Small data sets in the official formats."""

import hashlib
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from scalednl.lab.data import fetch
from scalednl.lab.data.catalogue import CIFAR10, CIFAR100, TINY_IMAGENET
from scalednl.lab.data.cifar import NPM_LABELS, Cifar
from scalednl.lab.data.data_set import DataSet
from scalednl.lab.data.splits import Bytes

Files = dict[str, bytes]


def random_images(count: int, side: int, seed: int = 0) -> Bytes:
    """Noise."""
    return np.random.default_rng(seed).integers(0, 256, (count, side, side, 3), dtype=np.uint8)


def small_cifar(coarse: bool = False, records: int = 3) -> tuple[Cifar, Files]:
    """A CIFAR of a few images per file that knows the hashes of its binary files and pickles."""
    data = CIFAR100 if coarse else CIFAR10
    draw = np.random.default_rng(1)
    files = {}
    for index, name in enumerate(data.binary_md5):
        labels = [draw.integers(0, n, records) for n in ([20] * coarse + [data.facts.classes])]
        planes = random_images(records, 32, index).transpose(0, 3, 1, 2).reshape(records, -1)
        files[name] = np.column_stack([*labels, planes]).astype(np.uint8).tobytes()
    data = replace(data, binary_md5=_md5(files), download_bytes=1000)
    return replace(data, pickle_md5=_md5(python_version(data, files))), files


def _md5(files: Files) -> dict[str, str]:
    return {name: hashlib.md5(content).hexdigest() for name, content in files.items()}


def _records(data: Cifar, content: bytes) -> Bytes:
    return np.frombuffer(content, np.uint8).reshape(-1, 3072 + len(data.label_keys))


def python_version(data: Cifar, files: Files) -> Files:
    """The same as pickles, with the keys and types of the official ones."""
    pickles = {}
    for name, content in files.items():
        records = _records(data, content)
        batch = {b"batch_label": b"a batch", b"data": np.ascontiguousarray(records[:, -3072:])}
        for column, key in enumerate(data.label_keys):
            batch[key] = records[:, column].tolist()
        pickles[name.removesuffix(".bin")] = pickle.dumps(batch, protocol=2)
    return pickles


def npm_version(data: Cifar, files: Files) -> Files:
    """The same as PNGs and lists of labels."""
    package, labels = {}, {split: list[int]() for split in NPM_LABELS}
    for name, content in files.items():
        records = _records(data, content)
        pixels = records[:, 1:].reshape(-1, 3, 1024).transpose(0, 2, 1)
        package[name.replace(".bin", ".png")] = encoded(Image.fromarray(pixels.copy()), "PNG")
        labels["test" if name.startswith("test") else "train"] += records[:, 0].tolist()
    return package | {
        name: json.dumps(labels[split]).encode() for split, name in NPM_LABELS.items()
    }


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


def encoded(picture: Image.Image, kind: str, **options: Any) -> bytes:
    """A picture as a file."""
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
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


def quiet(_: str) -> None:
    """Ignores the sentences of `fetch.get`."""


def stored(folder: Path, kind: str) -> tuple[Path, DataSet]:
    """A small data set, stored in FOLDER/root from FOLDER/source."""
    data: DataSet
    if kind == "tiny":
        data, source = TINY_IMAGENET, zipped(folder / "source", tiny_files())
    else:
        data, files = small_cifar(coarse=kind == "cifar100")
        source = tar(folder / "source", files)
    fetch.get(data, folder / "root", quiet, source=source)
    return folder / "root", data


def image_folder(path: Path, counts: Mapping[str, int], size: tuple[int, int] = (16, 12)) -> Path:
    """A folder of JPEGs of noise: so many in each folder below it; the sizes are width, height."""
    for seed, (name, count) in enumerate(counts.items()):
        (path / name).mkdir(parents=True, exist_ok=True)
        draw = np.random.default_rng(seed)
        for number in range(count):
            pixels = draw.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path / name / f"{number}.jpg")
    return path
