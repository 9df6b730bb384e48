"""The folder of data sets: where each is stored, and how it gets there complete.

    ROOT/cifar10/dataset.json     what it is, where it came from
    ROOT/cifar10/SHA256SUMS       of every file, as `sha256sum` writes them
    ROOT/cifar10/files/           the official files, or tiny-imagenet.zip
    ROOT/cifar10/arrays/          decoded (`arrays.py`); decoded again if lost

A folder appears under its name by one rename, when everything in it has been checked.
"""

import hashlib
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import platformdirs
from filelock import FileLock, Timeout
from msgspec import Meta

from scalednl.errors import CommandError
from scalednl.files import flush, flush_folder, write_text
from scalednl.lab.data.data_set import DataSet, Files
from scalednl.lab.data.errors import DataError, DiskError, writing_data
from scalednl.lab.records.typed_json import read_record, write_record

SCHEMA = 1
PARTS = {"dataset.json", "SHA256SUMS", "files", "arrays", ".arrays.building"}
ENVIRONMENT = "SCALEDNL_DATA"


@dataclass(frozen=True)
class Description:
    """What `dataset.json` contains."""

    name: str
    source: str
    obtained: str
    train_images: Annotated[int, Meta(gt=0)]
    test_images: Annotated[int, Meta(gt=0)]
    class_names: Annotated[tuple[str, ...], Meta(min_length=1)]
    schema: int = SCHEMA


def data_root(root: Path | None = None) -> Path:
    """The folder of all data sets: as given, or $SCALEDNL_DATA, or the platform's cache folder."""
    if root is not None:
        return root
    if os.environ.get(ENVIRONMENT):
        return Path(os.environ[ENVIRONMENT])
    return Path(platformdirs.user_cache_dir("scalednl", appauthor=False)) / "data"


@contextmanager
def locked(root: Path, name: str, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """One process at a time may change a data set; the others call `waiting`, and wait."""
    with writing_data(root):
        root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(root / f".{name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if waiting is not None:
                waiting()
            lock.acquire()
    try:
        with writing_data(root):
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
    """The description of a stored data set; an error says that it is missing, or what is wrong."""
    path = folder / "dataset.json"
    if folder.parent.exists() and not folder.parent.is_dir():
        raise DataError(f"{folder.parent} is not a folder: choose another one with --root")
    try:
        description = read_record(path, Description)
    except FileNotFoundError:
        raise DataError(f"{name} is not in {folder.parent}: {get_again(folder)}") from None
    except CommandError as error:
        raise DataError(f"{error}: {get_again(folder)}") from error
    if description.schema != SCHEMA or description.name != name:
        raise DataError(
            f"{path} describes {description.name} in schema {description.schema}, and this version "
            f"reads {name} in schema {SCHEMA}: {get_again(folder)}"
        )
    for part in ("SHA256SUMS", "files"):
        if not (folder / part).exists():
            raise DataError(f"{folder} has no {part}: {get_again(folder)}")
    return description


@contextmanager
def placing(root: Path, name: str) -> Iterator[Path]:
    """An empty folder that becomes ROOT/NAME when the block ends, and is deleted if it fails.

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
    """Refuse to replace a file or folder that is not a stored data set."""
    folder = root / name
    if not os.path.lexists(folder):
        return
    is_ours = not folder.is_symlink() and folder.is_dir()
    if not is_ours or {path.name for path in folder.iterdir()} - PARTS:
        raise DiskError(
            f"{folder} is not a data set of scalednl, so it is not replaced: move it, or choose "
            "another folder with --root or SCALEDNL_DATA"
        )


def _recover(root: Path, name: str) -> None:
    """Undo a replacement that stopped between its two renames."""
    folder, old = root / name, root / f".{name}.old"
    if old.exists() and not folder.exists():
        old.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def write_files(folder: Path, data: DataSet, files: Files, description: Description) -> None:
    """Store files, sums and description, flushed to disk; the description last."""
    target = folder / "files"
    target.mkdir()
    data.write(files, target)
    for path in target.iterdir():
        flush(path)
    flush_folder(target)
    lines = [f"{_sha256(content)}  {name}\n" for name, content in files.items()]
    write_text(folder / "SHA256SUMS", "".join(lines))
    write_record(folder / "dataset.json", description)


def read_files(folder: Path, data: DataSet) -> Files:
    """The stored files, each of them compared with its sum."""
    again = get_again(folder)
    try:
        lines = (folder / "SHA256SUMS").read_text(encoding="utf-8").split("\n")
        files = data.read(folder / "files")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{folder} cannot be read ({error}): {again}") from error
    sums = {line[66:]: line[:64] for line in lines if line}
    for name in sums.keys() | files.keys():
        if name not in files:
            raise DataError(f"{folder / 'files'} has no {name}: {again}")
        if name not in sums:
            raise DataError(f"{folder / 'SHA256SUMS'} is damaged: {name} is not in it: {again}")
        if _sha256(files[name]) != sums[name]:
            raise DataError(f"{folder / 'files'}: {name} is damaged (its sha256 differs): {again}")
    return {name: files[name] for name in sums}


def fingerprint(folder: Path) -> dict[str, Any]:
    """Changes with the stored files: the hash of their sums, and each file's size and time."""
    paths = sorted((folder / "files").iterdir())
    return {
        "sums": _sha256((folder / "SHA256SUMS").read_bytes()),
        "files": [[p.name, p.stat().st_size, p.stat().st_mtime_ns] for p in paths],
    }


def size_on_disk(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def get_again(folder: Path) -> str:
    """The end of a sentence about the folder of a data set that is missing or damaged."""
    root = folder.parent
    option = "" if root == data_root() else f" --root {shlex.quote(str(root))}"
    return f"run `scalednl data get {folder.name}{option}`"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
