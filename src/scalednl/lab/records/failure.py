"""What is remembered of a run that failed: `failure.json` beside its `log.txt`."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from scalednl.files import write_json

SCHEMA = 1
FAILURE = "failure.json"
LOG = "log.txt"


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
        found = Failure(**json.loads((path / FAILURE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    sound = isinstance(found.count, int) and isinstance(found.message, str)
    return found if sound and found.schema == SCHEMA else None


def write_failure(path: Path, message: str) -> Failure:
    """Remember one more failure."""
    before = read_failure(path)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    failure = Failure(1 if before is None else before.count + 1, message, now)
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / FAILURE, asdict(failure))
    return failure


def clear_failure(path: Path) -> None:
    """Forget it: the run has ended well."""
    (path / FAILURE).unlink(missing_ok=True)


def log_tail(path: Path, lines: int = 5) -> list[str]:
    """The last lines of a run's log."""
    try:
        with (path / LOG).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 4096))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-lines:]
