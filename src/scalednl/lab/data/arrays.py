"""Decoded images, stored once and mapped into memory afterwards.

Every array is compared with its checksum when it is opened, and the files that it was decoded from
with their fingerprint.
"""

import shutil
import zlib
from collections.abc import Iterable, Mapping
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
MOST_CHECKED = 2**31
"""Bytes of an array that are compared with their checksum whenever it is opened"""


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
    for name in NAMES:
        split, field = name.split("_")
        array = getattr(splits[split], field)
        save_rows(building / f"{name}.npy", array.shape, array.dtype, [array])
    write_header(building, store.fingerprint(folder))
    shutil.rmtree(target, ignore_errors=True)
    building.rename(target)


def write_header(arrays: Path, source: dict[str, Any]) -> None:
    """Store the checksums of the arrays in a folder, and the fingerprint of their source."""
    checks = {name: _checksum(np.load(arrays / f"{name}.npy", mmap_mode="r")) for name in NAMES}
    write_record(arrays / "arrays.json", Header(source, checks))


def open_arrays(folder: Path, source: dict[str, Any] | None = None) -> dict[str, Split]:
    """The stored splits, mapped; `StaleError` if they are missing, damaged or of other files.

    `source` is the fingerprint of those files, that of the official ones if not given.
    """
    header = _header(folder, source)
    arrays = {name: _open(folder / "arrays" / f"{name}.npy", header) for name in NAMES}
    try:
        return {
            split: Split(arrays[f"{split}_images"], arrays[f"{split}_labels"])
            for split in ("train", "test")
        }
    except AssertionError as error:
        raise StaleError("its arrays do not belong together") from error


def _header(folder: Path, source: dict[str, Any] | None) -> Header:
    try:
        header = read_record(folder / "arrays" / "arrays.json", Header)
        changed = header.source != (source or store.fingerprint(folder))
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
    if not _matches(array, header.crc32.get(path.stem)):
        raise StaleError(f"{path.name} is damaged")
    return array


def _matches(array: npt.NDArray[Any], check: list[Any] | None) -> bool:
    """Whether an array is the one of a checksum; of one too large for memory, shape and type."""
    if array.nbytes > MOST_CHECKED:
        return check is not None and check[:2] == [list(array.shape), array.dtype.str]
    return _checksum(array) == check


def save_rows(
    path: Path, shape: tuple[int, ...], kind: npt.DTypeLike, parts: Iterable[npt.NDArray[Any]]
) -> None:
    """Write an array part by part, like np.save, but report a full disk."""
    layout = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, layout)
        for part in parts:
            file.write(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    flush(path)


def _checksum(array: npt.NDArray[Any]) -> list[Any]:
    """Shape, type, and the CRC of every 32 MiB; several threads read blocks at once."""
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    blocks = [content[first : first + BLOCK] for first in range(0, len(content), BLOCK)]
    with ThreadPoolExecutor() as pool:
        sums = list(pool.map(zlib.crc32, blocks))
    return [list(array.shape), array.dtype.str, sums]
