"""Benchmark records: what is written reads back, and what is damaged is named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalednl.errors import CommandError
from scalednl.lab.records import origin
from scalednl.lab.records.bench import (
    SCHEMA,
    BlocksRecord,
    BlocksRow,
    BlocksSettings,
    find_bench_records,
    read_bench_record,
)
from scalednl.lab.records.floor import MachineLimit
from scalednl.lab.records.typed_json import write_record


def _record(**changed: Any) -> BlocksRecord:
    return BlocksRecord(
        **{
            "schema": f"{SCHEMA}blocks.v1",
            "origin": origin(2),
            "settings": BlocksSettings("one block", 5),
            "rows": (BlocksRow("auto", 1.5, 100, 1e-7),),
            **changed,
        }
    )


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    """A record in a file is the record; other files are no records."""
    record = _record(waited=0.01)
    write_record(tmp_path / "cost.json", record)
    assert read_bench_record(tmp_path / "cost.json") == record
    for content in ('{"schema": "other.v1"}', '{"schema": "scalednl.bench.unknown.v1"}', "[]", "{"):
        (tmp_path / "other.json").write_text(content)
        assert read_bench_record(tmp_path / "other.json") is None
    (tmp_path / "large.json").write_text(" " * (1 << 20) + "{}")
    assert read_bench_record(tmp_path / "large.json") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("milliseconds", 0),
        ("milliseconds", -1.0),
        ("milliseconds", 1e300),
        ("milliseconds", "1"),
        ("bytes_kept", None),
        ("bytes_kept", True),
        ("method", 5),
    ],
)
def test_a_damaged_record_is_named(tmp_path: Path, name: str, value: Any) -> None:
    """What could not be drawn or judged is refused by the name of its file and its field."""
    path = tmp_path / "cost.json"
    write_record(path, _record())
    content = json.loads(path.read_text())
    content["rows"][0][name] = value
    path.write_text(json.dumps(content))
    with pytest.raises(CommandError, match=rf"^cost\.json is damaged: .*{name}"):
        read_bench_record(path)
    assert find_bench_records([tmp_path])[0] == []
    assert len(find_bench_records([tmp_path])[1]) == 1


def test_the_newest_full_record_counts(tmp_path: Path) -> None:
    """Of one benchmark a full record comes before a quick one, then the newer before the older."""
    for index, quick in enumerate((False, False, True)):
        made = origin(2)
        dated = replace(made, date=f"2026-01-0{index + 1}T00:00:00")
        folder = tmp_path / str(index)
        folder.mkdir()
        write_record(folder / "cost.json", _record(origin=dated, quick=quick))
    (found,), damaged = find_bench_records([tmp_path])
    assert (found.origin.date[:10], damaged) == ("2026-01-02", [])


@pytest.mark.parametrize(
    ("waited", "load", "disturbed"),
    [(0.5, 0.0, True), (0.01, 100.0, False), (None, 100.0, True), (None, None, False)],
)
def test_a_busy_machine(waited: float | None, load: float | None, disturbed: bool) -> None:
    """Time spent waiting for a core decides; without it, the load before the start."""
    assert _record(waited=waited, load_at_start=load).is_disturbed == disturbed


def test_a_machine_that_changes_its_speed_is_disturbed() -> None:
    """Products that run much faster at the end than at the start show that others were there."""
    slow, fast = (MachineLimit(rate, 1e10) for rate in (5e10, 1e11))
    assert not _record(waited=0.0, limit=fast, limit_at_end=fast).is_disturbed
    for start, end in ((slow, fast), (fast, slow)):
        assert "GFLOP/s" in _record(waited=0.0, limit=start, limit_at_end=end).disturbance
