"""Benchmark records: what is written reads back, and what is damaged is named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalednl.errors import CommandError
from scalednl.lab.records import origin
from scalednl.lab.records.bench import (
    MIN_REPEATS,
    SCHEMA,
    BlocksRecord,
    BlocksRow,
    BlocksSettings,
    Timing,
    find_bench_records,
    read_bench_record,
)
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


def test_median_and_quartiles() -> None:
    """Half of the runs are between the quartiles; one run is all three."""
    timing = Timing.of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert timing.median_ms == 3.0
    assert timing.quartiles_ms == pytest.approx((2.0, 4.0))
    assert str(timing) == "3.00 (2.00-4.00)"
    assert Timing.of([200.0]).quartiles_ms == (200.0, 200.0)


def test_a_ratio_needs_enough_runs() -> None:
    """A ratio is of medians, and refused from fewer than five runs of either side."""
    enough = Timing.of([2.0] * MIN_REPEATS)
    assert enough.ratio(Timing.of([1.0] * MIN_REPEATS)) == 2.0
    with pytest.raises(ValueError, match="at least 5 runs, got 4"):
        enough.ratio(Timing.of([1.0] * 4))


def test_extra_is_taken_round_by_round() -> None:
    """A round in which the machine was slow for both does not count as extra."""
    base, more = Timing.of([1.0, 9.0, 1.0]), Timing.of([1.5, 9.5, 1.5])
    assert more.extra(base).runs_ms == (0.5, 0.5, 0.5)
    assert more.extra(base).median_ms == 0.5


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
