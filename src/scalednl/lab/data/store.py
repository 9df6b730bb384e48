"""Where data sets lie, and how one gets there whole.

    ROOT/cifar10/dataset.json     what it is, where it came from
    ROOT/cifar10/SHA256SUMS       of every file, as `sha256sum` writes them
    ROOT/cifar10/files/           the official files, or tiny-imagenet.zip
    ROOT/cifar10/arrays/          decoded, for loading at once; made again when lost

A folder appears under its name by one rename, when everything in it has been checked.
"""

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock, Timeout

from scalednl.files import flush, flush_folder, write_json, write_text
from scalednl.lab.data.archives import BROKEN, TRUSTING
from scalednl.lab.data.catalogue import DataInfo
from scalednl.lab.data.errors import DataError, DiskError, explaining_disk_errors
from scalednl.lab.data.tiny_imagenet import PACK, write_pack

SCHEMA = 1
PARTS = {"dataset.json", "SHA256SUMS", "files", "arrays", ".arrays.building"}
ENVIRONMENT = "SCALEDNL_DATA"


@dataclass(frozen=True)
class Description:
    """What `dataset.json` says."""

    name: str
    source: str
    obtained: str
    train_images: int
    test_images: int
    class_names: tuple[str, ...]
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        whole = all(type(n) is int and n > 0 for n in (self.train_images, self.test_images))
        names = self.class_names
        if not whole or not names or not all(isinstance(name, str) for name in names):
            raise ValueError("its values are not of the right kinds")


def data_root(root: Path | None = None) -> Path:
    """The folder of all data sets: as given, or $SCALEDNL_DATA, or the platform's cache folder."""
    if root is not None:
        return root
    if os.environ.get(ENVIRONMENT):
        return Path(os.environ[ENVIRONMENT])
    return Path(platformdirs.user_cache_dir("scalednl", appauthor=False)) / "data"


@contextmanager
def locked(root: Path, name: str, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """One process at a time may change a data set; others say so with `waiting`, and wait.

    What a replacement that died between its two renames left is put right first.
    """
    with explaining_disk_errors(root):
        root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(root / f".{name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if waiting is not None:
                waiting()
            lock.acquire()
    try:
        with explaining_disk_errors(root):
            _recover(root, name)
        yield
    finally:
        lock.release()


def find(root: Path, name: str) -> tuple[Path, Description]:
    """Folder and description of a stored data set; an error says what is wrong with it."""
    folder = root / name
    if not folder.exists() and (root / f".{name}.old").exists():
        with locked(root, name):
            pass
    return folder, describe(folder, name)


def describe(folder: Path, name: str) -> Description:
    """What a stored data set is; an error says that it is not there, or what is wrong with it."""
    path = folder / "dataset.json"
    if folder.parent.exists() and not folder.parent.is_dir():
        raise DataError(f"{folder.parent} is not a folder: choose another one with --root")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        values["class_names"] = tuple(values["class_names"])
        description = Description(**values)
    except FileNotFoundError:
        raise DataError(f"{name} is not in {folder.parent}: {_again(name)}") from None
    except PermissionError as error:
        raise DataError(
            f"{path} may not be read: ask its owner, or choose another --root"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error}): {_again(name)}") from error
    if description.schema != SCHEMA or description.name != name:
        raise DataError(
            f"{path} is of {description.name}, schema {description.schema}, and this version reads "
            f"schema {SCHEMA} of {name}: {_again(name)}"
        )
    for part in ("SHA256SUMS", "files"):
        if not (folder / part).exists():
            raise DataError(f"{folder} has lost {part}: {_again(name)}")
    return description


@contextmanager
def placing(root: Path, name: str) -> Iterator[Path]:
    """An empty folder that becomes ROOT/NAME when the block ends well, and vanishes when not.

    To be used under `locked`.
    """
    folder, staging, old = root / name, root / f".{name}.getting", root / f".{name}.old"
    check_place(root, name)
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staging.mkdir()
        yield staging
        if folder.exists():
            folder.rename(old)
        staging.rename(folder)
        flush_folder(root)
    finally:
        _recover(root, name)
        shutil.rmtree(staging, ignore_errors=True)


def check_place(root: Path, name: str) -> None:
    """Refuse to put a data set where something else lies."""
    folder = root / name
    if not folder.exists() and not folder.is_symlink():
        return
    ours = not folder.is_symlink() and folder.is_dir()
    if not ours or {path.name for path in folder.iterdir()} - PARTS:
        raise DiskError(
            f"{folder} is something else than a data set of ours: move it away, or choose another "
            "folder with --root or SCALEDNL_DATA"
        )


def _recover(root: Path, name: str) -> None:
    folder, old = root / name, root / f".{name}.old"
    if old.exists() and not folder.exists():
        old.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def write_files(
    folder: Path, info: DataInfo, files: Mapping[str, bytes], description: Description
) -> None:
    """Files, sums and description, flushed to the disk; the description last."""
    target = folder / "files"
    target.mkdir()
    if info.cifar is not None:
        for name, content in files.items():
            (target / name).write_bytes(content)
    else:
        write_pack(files, target / PACK)
    for path in target.iterdir():
        flush(path)
    flush_folder(target)
    lines = [f"{_sha256(content)}  {name}\n" for name, content in files.items()]
    write_text(folder / "SHA256SUMS", "".join(lines))
    write_json(folder / "dataset.json", asdict(description))


def read_stored(folder: Path, info: DataInfo) -> dict[str, bytes]:
    """The stored files, every one of them compared with its sum."""
    sums = _sums(folder, info.name)
    if info.cifar is not None and set(sums) != set(info.cifar.md5):
        raise DataError(f"{folder / 'SHA256SUMS'} is damaged: {_again(info.name)}")
    files = _read_folder(folder, sums) if info.cifar is not None else _read_pack(folder, info.name)
    again = _again(info.name)
    for name, right in sums.items():
        if name not in files:
            raise DataError(f"{folder / 'files'} has lost {name}: {again}")
        if _sha256(files[name]) != right:
            raise DataError(f"{folder / 'files'}: {name} is damaged (its sha256 differs): {again}")
    return {name: files[name] for name in sums}


def fingerprint(folder: Path) -> dict[str, Any]:
    """What changes when the stored files do: their sums, and each file's size and time."""
    paths = sorted((folder / "files").iterdir())
    return {
        "sums": hashlib.sha256((folder / "SHA256SUMS").read_bytes()).hexdigest(),
        "files": [[p.name, p.stat().st_size, p.stat().st_mtime_ns] for p in paths],
    }


def size_on_disk(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def now() -> str:
    """UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _sums(folder: Path, name: str) -> dict[str, str]:
    path = folder / "SHA256SUMS"
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        sums = {line[66:]: line[:64] for line in lines if line}
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {_again(name)}") from error
    if not sums:
        raise DataError(f"{path} is empty: {_again(name)}")
    return sums


def _read_folder(folder: Path, names: Mapping[str, str]) -> dict[str, bytes]:
    paths = {name: folder / "files" / name for name in names}
    try:
        return {name: path.read_bytes() for name, path in paths.items() if path.is_file()}
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error


def _read_pack(folder: Path, name: str) -> dict[str, bytes]:
    path, inside, files = folder / "files" / PACK, "", {}
    try:
        with zipfile.ZipFile(path) as pack:
            for inside in pack.namelist():
                files[inside] = pack.read(inside)
    except (*BROKEN, *TRUSTING, OSError) as error:
        where = f"{path}, at {inside}," if inside else str(path)
        raise DataError(f"{where} is damaged ({error}): {_again(name)}") from error
    return files


def _again(name: str) -> str:
    return f"run `scalednl data get {name}`"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
