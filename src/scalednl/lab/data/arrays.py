"""Decoded images, stored once and mapped into memory afterwards.

Every array is compared with its checksum when it is opened, and the files that it was decoded from
with their fingerprint.
"""

import shutil
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scalednl.errors import CommandError
from scalednl.files import flush
from scalednl.lab.data import store
from scalednl.lab.data.splits import Split
from scalednl.lab.records.typed_json import read_record, write_record

SCHEMA = 1
BLOCK = 32 * 2**20
NAMES = ("train_images", "train_labels", "test_images", "test_labels")


@dataclass(frozen=True)
class Header:
    """What `arrays.json` contains."""

    source: dict[str, Any]
    """Fingerprint of the files that the arrays were decoded from"""
    crc32: dict[str, list[Any]]
    """Checksum of each array"""
    schema: int = SCHEMA


@dataclass(frozen=True)
class StaleError(Exception):
    """Why the stored arrays cannot be used."""

    reason: str


def write_arrays(folder: Path, splits: Mapping[str, Split]) -> None:
    """Store decoded splits in FOLDER/arrays, all at once or not at all."""
    building, target = folder / ".arrays.building", folder / "arrays"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    checks = {}
    for name in NAMES:
        split, field = name.split("_")
        array = getattr(splits[split], field)
        _save(building / f"{name}.npy", array)
        checks[name] = _checksum(array)
    write_record(building / "arrays.json", Header(store.fingerprint(folder), checks))
    shutil.rmtree(target, ignore_errors=True)
    building.rename(target)


def open_arrays(folder: Path) -> dict[str, Split]:
    """The stored splits, mapped; `StaleError` if they are missing, damaged or of other files."""
    header = _header(folder)
    arrays = {name: _open(folder / "arrays" / f"{name}.npy", header) for name in NAMES}
    try:
        return {
            split: Split(arrays[f"{split}_images"], arrays[f"{split}_labels"])
            for split in ("train", "test")
        }
    except AssertionError as error:
        raise StaleError("its arrays do not belong together") from error


def _header(folder: Path) -> Header:
    try:
        header = read_record(folder / "arrays" / "arrays.json", Header)
        changed = header.source != store.fingerprint(folder)
    except OSError as error:
        raise StaleError(
            "its arrays, or the files that they were made from, are missing"
        ) from error
    except CommandError as error:
        raise StaleError(str(error)) from error
    if header.schema != SCHEMA:
        raise StaleError("its arrays are of another version")
    if changed:
        raise StaleError("the files that its arrays were made from have changed")
    return header


def _open(path: Path, header: Header) -> npt.NDArray[Any]:
    try:
        # "c": private pages, so that nothing can be written back by mistake.
        array = np.load(path, mmap_mode="c")
    except (OSError, ValueError, EOFError) as error:
        raise StaleError(f"{path.name} cannot be opened ({error})") from error
    if _checksum(array) != header.crc32.get(path.stem):
        raise StaleError(f"{path.name} is damaged")
    return array


def _save(path: Path, array: npt.NDArray[Any]) -> None:
    """As np.save, which does not report that the disk is full."""
    content = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, np.lib.format.header_data_from_array_1_0(content)
        )
        file.write(content.reshape(-1).view(np.uint8).data)
    flush(path)


def _checksum(array: npt.NDArray[Any]) -> list[Any]:
    """Shape, type, and the CRC of every 32 MiB; several threads read blocks at once."""
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    blocks = [content[first : first + BLOCK] for first in range(0, len(content), BLOCK)]
    with ThreadPoolExecutor() as pool:
        sums = list(pool.map(zlib.crc32, blocks))
    return [list(array.shape), array.dtype.str, sums]
