"""The failure of a run in a sweep."""

from datetime import datetime, timezone
from pathlib import Path

import pytest

from scalednl.lab.records.failure import (
    FAILURE,
    LOG,
    TAIL,
    clear_failure,
    log_tail,
    read_failure,
    write_failure,
)


def test_failures_are_counted_until_the_run_ends_well(tmp_path: Path) -> None:
    """The last reason counts; the folder is made for a run that never began."""
    path = tmp_path / "new" / "run"
    before = datetime.now(timezone.utc).replace(microsecond=0)
    write_failure(path, "first")
    failure = write_failure(path, "second \ud800")
    assert (failure.count, failure.message) == (2, "second \\ud800")
    assert read_failure(path) == failure
    assert datetime.fromisoformat(failure.date) >= before
    clear_failure(path)
    clear_failure(path)
    assert read_failure(path) is None
    assert write_failure(path, "third").count == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 9, "count": 1}', '{"count": "x"}'])
def test_what_cannot_be_read_is_no_failure(tmp_path: Path, text: str) -> None:
    """Counting begins again."""
    (tmp_path / FAILURE).write_text(text)
    assert read_failure(tmp_path) is None
    assert write_failure(tmp_path, "again").count == 1


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    """Empty lines and bytes that are no text do no harm; no log has no lines."""
    assert log_tail(tmp_path) == []
    lines = [f"line {number}" for number in range(2000)]
    (tmp_path / LOG).write_bytes("\n\n".join(lines).encode() + b"\n\xff\n \n")
    assert log_tail(tmp_path) == [*lines[1 - TAIL :], "\ufffd"]
