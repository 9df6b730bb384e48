"""The failure of a run in a sweep: `failure.json` beside its `log.txt`."""

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from scalednl.errors import CommandError
from scalednl.files import regular_file
from scalednl.lab.records.typed_json import read_record, write_record

SCHEMA = 1
FAILURE = "failure.json"
LOG = "log.txt"
TAIL = 5
"""Lines of a log that are shown"""


@dataclass(frozen=True)
class Failure:
    """How often a run has failed, and why the last time."""

    count: int
    message: str
    date: str
    """UTC, to the second"""
    schema: int = SCHEMA


def read_failure(path: Path) -> Failure | None:
    """The failure of a run directory; None where there is none that can be read."""
    try:
        return read_record(path / FAILURE, Failure, schema=SCHEMA, top=path)
    except (FileNotFoundError, CommandError):
        return None


def write_failure(path: Path, message: str) -> Failure:
    """Record one more failure."""
    before = read_failure(path)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    message = message.encode("utf-8", "backslashreplace").decode()
    failure = Failure(1 if before is None else before.count + 1, message, now)
    path.mkdir(parents=True, exist_ok=True)
    write_record(path / FAILURE, failure)
    return failure


def clear_failure(path: Path) -> None:
    """Remove it: the run has ended well."""
    (path / FAILURE).unlink(missing_ok=True)


def log_tail(path: Path) -> list[str]:
    """The last lines of a run's log."""
    try:
        with regular_file(path / LOG, path) as (file, size):
            file.seek(max(0, size - 4096))
            text = file.read(4096).decode("utf-8", "replace")
    except (FileNotFoundError, CommandError):
        return []
    return [line for line in text.splitlines() if line.strip()][-TAIL:]
