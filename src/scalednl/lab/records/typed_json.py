"""Typed records in JSON files: one dataclass is what writers write and readers get back."""

import dataclasses
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from scalednl.errors import CommandError
from scalednl.files import read_bytes, write_json

Record = TypeVar("Record")
LARGEST_FILE = 4 << 20
"""Bytes; a larger file is not one of ours. Values take up to 25 times their letters in memory"""


def read_record(
    path: Path,
    kind: type[Record],
    largest: int = LARGEST_FILE,
    *,
    schema: int | None = None,
    top: Path | None = None,
) -> Record:
    """A JSON file as a record of this type; unknown names are ignored, all else is checked.

    With `schema`, the file must name that version; with `top`, links must not lead out of that
    folder. Raises `FileNotFoundError` if there is no such file, and `CommandError` for anything
    that is not such a record.
    """
    return decode_record(read_bytes(path, largest, top), kind, path, schema=schema)


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


def write_record(path: Path, record: Any) -> None:
    """Replace a file by a record: readable, strict JSON."""
    write_json(path, plain_values(record))


def plain_values(record: Any) -> Any:
    """A record as values for JSON; bytes become base64."""
    # msgspec alone leaves out defaults of records that it has decoded itself.
    return msgspec.to_builtins(dataclasses.asdict(record))
