"""Files that are whole or not there: written under another name, flushed, then renamed."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


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
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace a file's text."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Replace a file by readable, strict JSON: a NaN is an error here, not in the reader."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def sha256_of(path: Path) -> str:
    """The sum of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def flush(path: Path) -> None:
    """Have the disk hold what was written to a file."""
    # Windows flushes only what was opened for writing; a folder can only be opened for reading.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(folder: Path) -> None:
    """Have the disk hold a folder's names, on systems where a folder can be flushed."""
    with suppress(OSError):
        flush(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
