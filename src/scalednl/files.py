"""Files that are complete or absent: written under another name, flushed, then renamed.

Files of strangers are read only if they are regular ones, and no larger than they can be.
"""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from scalednl.errors import CommandError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; it takes its place when the block ends without an error.

    The old file stays until then, and for good if the block fails. Permissions are the usual ones,
    whatever the writer set.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        flush(temporary)
        temporary.replace(path)
        flush_folder(path.parent)
    finally:
        remove(temporary)


def remove(temporary: Path) -> None:
    """Remove a file if it is there; a failure does not hide the error that came before."""
    with suppress(OSError):
        temporary.unlink(missing_ok=True)


@contextmanager
def writing_to(
    place: Path,
    advice: str = "choose another folder with --out",
    kind: type[CommandError] = CommandError,
) -> Iterator[None]:
    """Turn an OSError of writing to a file or folder into one sentence that ends in `advice`."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            problem = f"the disk of {place} is full: free some space, or"
        else:
            problem = f"{place} cannot be written ({error.strerror or error}):"
        raise kind(f"{problem} {advice}") from error


def check_target(path: Path) -> None:
    """Raise a ValueError unless a file can have this place."""
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is not a folder: make it first")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file")


def write_text(path: Path, text: str) -> None:
    """Replace a file's text."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Replace a file by readable, strict JSON: a NaN is an error here, not in the reader."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def read_bytes(path: Path, largest: int, top: Path | None = None) -> bytes:
    """The content of a regular file of at most `largest` bytes: see `regular_file`."""
    with regular_file(path, top) as (file, size):
        if size > largest:
            raise CommandError(f"{path} has {size:,} bytes (limit {largest:,})")
        return file.read(largest)


@contextmanager
def regular_file(path: Path, top: Path | None = None) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file that is open for reading, and its size.

    Pipes, devices and folders are refused, and never waited for. With `top`, so are links that lead
    out of that folder. Raises `FileNotFoundError` if there is no file, else `CommandError`.
    """
    try:
        if top is not None and not is_inside(path, top):
            raise CommandError(f"{path} is a link out of the folder: copy the file instead")
        with open(path, "rb", opener=_open) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise CommandError(f"{path} is not a regular file")
            yield file, found.st_size
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        # A name that no file can have, such as one with a NUL in it.
        raise CommandError(f"{path} cannot be read: {error}") from error


def is_inside(path: Path, top: Path) -> bool:
    """Whether a path is in a folder or is the folder itself, wherever links on the way lead."""
    real, folder = os.path.realpath(path), os.path.realpath(top)
    return os.path.commonpath([real, folder]) == folder


def _open(path: str, flags: int) -> int:
    """Open without waiting: a pipe would wait for its writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def sha256_of(path: Path) -> str:
    """The SHA-256 sum of a file's content, in hexadecimal."""
    digest = hashlib.sha256()
    with regular_file(path) as (file, _):
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def flush(path: Path) -> None:
    """Flush a file's contents to disk (fsync)."""
    # Windows flushes only what was opened for writing; a folder can only be opened for reading.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(folder: Path) -> None:
    """Flush a folder's names to disk, on systems where a folder can be flushed."""
    with suppress(OSError):
        flush(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
