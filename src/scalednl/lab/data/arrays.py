"""Decoded images stored once and mapped into memory afterwards.

The arrays are checked when they are opened: a checksum for each, and a fingerprint of the files
that they were decoded from. What does not fit is decoded again.
"""

import json
import shutil
import warnings
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scalednl.files import flush, write_json
from scalednl.lab.console import track
from scalednl.lab.data import store
from scalednl.lab.data.catalogue import DataInfo
from scalednl.lab.data.decode import decode_files
from scalednl.lab.data.errors import DiskError, explaining_disk_errors
from scalednl.lab.data.splits import Split

SCHEMA = 1
SPLITS = ("train", "test")
FIELDS = ("images", "labels", "coarse")
BLOCK = 32 * 2**20


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
    for name, array in _named(splits).items():
        _save(building / f"{name}.npy", array)
        checks[name] = _checksum(array)
    header = {"schema": SCHEMA, "source": store.fingerprint(folder), "crc32": checks}
    write_json(building / "arrays.json", header)
    shutil.rmtree(target, ignore_errors=True)
    building.rename(target)


def open_arrays(folder: Path) -> dict[str, Split]:
    """The stored splits, mapped; `StaleError` if they are missing, damaged or of other files."""
    header = _header(folder)
    if header.get("schema") != SCHEMA:
        raise StaleError("they are of another version")
    try:
        changed = header.get("source") != store.fingerprint(folder)
    except OSError as error:
        raise StaleError("the files that they were made from are not there") from error
    if changed:
        raise StaleError("the files that they were made from have changed")
    arrays = {}
    for name, right in header["crc32"].items():
        try:
            # "c": private pages, so that nothing can ever be written back by mistake.
            arrays[name] = np.load(folder / "arrays" / f"{name}.npy", mmap_mode="c")
        except (OSError, ValueError, EOFError) as error:
            raise StaleError(f"{name}.npy cannot be opened ({error})") from error
        if _checksum(arrays[name]) != right:
            raise StaleError(f"{name}.npy is damaged")
    try:
        return {split: _split(arrays, split) for split in SPLITS}
    except (AssertionError, KeyError) as error:
        raise StaleError("they do not belong together") from error


def load_splits(root: Path, info: DataInfo) -> dict[str, Split]:
    """The splits of a stored data set, from the arrays if these are sound."""
    folder = root / info.name
    try:
        return open_arrays(folder)
    except StaleError:
        pass
    try:
        with store.locked(root, info.name):
            try:
                # Another process may have made them while this one waited.
                return open_arrays(folder)
            except StaleError as stale:
                splits = _decode(folder, info, f"Decoding {info.title} again: {stale.reason}")
            with explaining_disk_errors(root):
                write_arrays(folder, splits)
            return splits
    except DiskError as error:
        # A folder that others keep and we may only read, or a full disk.
        warnings.warn(f"decoded arrays are not kept: {error}", stacklevel=3)
        return _decode(folder, info, f"Decoding {info.title}")


def _decode(folder: Path, info: DataInfo, what: str) -> dict[str, Split]:
    files = store.read_stored(folder, info)
    with track(what, None if info.cifar else len(files)) as advance:
        return decode_files(files, info, folder, advance).splits


def _header(folder: Path) -> dict[str, Any]:
    try:
        header = json.loads((folder / "arrays" / "arrays.json").read_text(encoding="utf-8"))
        if not isinstance(header, dict) or not isinstance(header.get("crc32"), dict):
            raise ValueError("not a header")
    except OSError as error:
        raise StaleError("they are not there") from error
    except (ValueError, RecursionError) as error:
        raise StaleError("arrays.json is damaged") from error
    return header


def _save(path: Path, array: npt.NDArray[Any]) -> None:
    """As np.save, which keeps the reason to itself when the disk is full."""
    whole = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(whole))
        file.write(whole.reshape(-1).view(np.uint8).data)
    flush(path)


def _named(splits: Mapping[str, Split]) -> dict[str, npt.NDArray[Any]]:
    named = {
        f"{split}_{field}": getattr(splits[split], field) for split in SPLITS for field in FIELDS
    }
    return {name: array for name, array in named.items() if array is not None}


def _split(arrays: Mapping[str, Any], split: str) -> Split:
    return Split(
        arrays[f"{split}_images"], arrays[f"{split}_labels"], arrays.get(f"{split}_coarse")
    )


def _checksum(array: npt.NDArray[Any]) -> list[Any]:
    """Shape, type, and the CRC of every 32 MiB; blocks are read by several threads at once."""
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    blocks = [content[first : first + BLOCK] for first in range(0, len(content), BLOCK)]
    with ThreadPoolExecutor() as pool:
        sums = list(pool.map(zlib.crc32, blocks))
    return [list(array.shape), array.dtype.str, sums]
