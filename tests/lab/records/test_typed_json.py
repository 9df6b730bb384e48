"""Typed records: what was written is read back; anything else is refused in a sentence."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from scalednl.errors import CommandError
from scalednl.lab.records.typed_json import read_record, write_record


@dataclass(frozen=True)
class _Error:
    last: Annotated[float, msgspec.Meta(ge=0, le=100)]
    best: float | None = None


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Writer and reader share one definition; names of a later version are ignored."""
    path = tmp_path / "error.json"
    write_record(path, _Error(3.25))
    assert read_record(path, _Error) == _Error(3.25)
    path.write_text('{"last": 3, "new": [1, 2]}')
    again = read_record(path, _Error)
    assert again == _Error(3.0)
    write_record(path, again)
    assert json.loads(path.read_text()) == {"last": 3.0, "best": None}


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"last": "3"}', '{"last": 101}', '{"last": 1e999}', '{"last": NaN}'),
        *('{"last": 3, "best": "\\ud800"}', "[" * 100_000, '{"last": 1' + "0" * 400 + "}"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    """Missing, mistyped, endless, nested or out of range: one error that names the file."""
    path = tmp_path / "error.json"
    path.write_text(text)
    with pytest.raises(CommandError, match=r"error\.json is damaged"):
        read_record(path, _Error)


def test_only_regular_files_of_limited_size_are_read(tmp_path: Path) -> None:
    """A pipe without a writer, an endless device and a large file are refused at once."""
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    for name in ("pipe.json", "endless.json"):
        with pytest.raises(CommandError, match="not a regular file"):
            read_record(tmp_path / name, _Error)
    (tmp_path / "large.json").write_text('{"last": 3}')
    with pytest.raises(CommandError, match="limit 5"):
        read_record(tmp_path / "large.json", _Error, largest=5)
    with pytest.raises(FileNotFoundError):
        read_record(tmp_path / "none.json", _Error)
