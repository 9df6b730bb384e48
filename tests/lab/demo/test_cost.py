"""The demonstration's cost table."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from scalednl.errors import CommandError
from scalednl.lab.demo import cost
from scalednl.lab.records.bench import BlocksRecord, read_bench_record


def test_the_table_is_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every form with its agreement; ratios are to `auto`, which keeps the fewest bytes."""
    monkeypatch.setattr(cost, "SIDE", 8)
    monkeypatch.setattr(cost, "CHANNELS", 16)
    page = io.StringIO()
    cost.measure_cost(tmp_path, Console(file=page, width=100))
    record = read_bench_record(tmp_path / "cost.json")
    assert isinstance(record, BlocksRecord)
    assert [row.method for row in record.rows] == [
        *("softmax plain", "softmax fused", "scaled quadratic", "scaled associative"),
        "scaled auto",
    ]
    assert record.settings.words == "One block on 2 x 16 x 8 x 8, best of 5"
    best = record.rows[-1]
    assert best.bytes_kept == min(row.bytes_kept for row in record.rows)
    assert all(row.error < 1e-5 for row in record.rows)
    for row in record.rows:
        assert f"x{row.milliseconds / best.milliseconds:.1f}" in page.getvalue()


def test_what_disagrees_is_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No table and no file."""
    monkeypatch.setattr(cost, "SIDE", 4)
    monkeypatch.setattr(cost, "relative_error", lambda *_: 0.5)
    with pytest.raises(CommandError, match="not timed"):
        cost.measure_cost(tmp_path, Console(file=io.StringIO()))
    assert not list(tmp_path.iterdir())
