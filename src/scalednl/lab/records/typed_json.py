"""Typed records in JSON files: one dataclass is what writers write and readers get back."""

import dataclasses
import os
import stat
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from scalednl.errors import CommandError
from scalednl.files import write_json

Record = TypeVar("Record")
LARGEST_FILE = 64 << 20
"""Bytes; a larger file is not one of ours"""


def read_record(
    path: Path, kind: type[Record], largest: int = LARGEST_FILE, *, schema: int | None = None
) -> Record:
    """A JSON file as a record of this type; unknown names are ignored, all else is checked.

    With `schema`, the file must name that version. Raises `FileNotFoundError` if there is no such
    file, and `CommandError` for anything that is not such a record.
    """
    return decode_record(read_bytes(path, largest), kind, path, schema=schema)


def decode_record(
    content: bytes, kind: type[Record], path: Path, *, schema: int | None = None
) -> Record:
    """The record in the content of a file; `path` is for the message."""
    try:
        if schema is not None:
            found = msgspec.json.decode(content, type=_Version).schema
            if found != schema:
                raise CommandError(f"{path} has schema {found}, and this version reads {schema}")
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise CommandError(f"{path} is damaged: {error}") from error


@dataclasses.dataclass(frozen=True)
class _Version:
    schema: int | None = None


def read_bytes(path: Path, largest: int = LARGEST_FILE) -> bytes:
    """The content of a regular file of limited size; pipes and devices are refused."""
    try:
        with open(path, "rb", opener=_open) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise CommandError(f"{path} is not a regular file")
            if found.st_size > largest:
                raise CommandError(f"{path} has {found.st_size:,} bytes (limit {largest:,})")
            return file.read(largest)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error


def _open(path: str, flags: int) -> int:
    """Open without waiting: a pipe would wait for its writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def write_record(path: Path, record: Any) -> None:
    """Replace a file by a record: readable, strict JSON."""
    write_json(path, plain_values(record))


def plain_values(record: Any) -> Any:
    """A record as values for JSON; bytes become base64."""
    # msgspec alone leaves out defaults of records that it has decoded itself.
    return msgspec.to_builtins(dataclasses.asdict(record))
