"""The figures of the README and of the page on the block are those of the stored records."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.records import ALL_KINDS
from scalednl.lab.allocator import Allocator
from scalednl.lab.bench.session import slug
from scalednl.lab.records.bench import (
    BenchRecord,
    OrdersRecord,
    ScalingRecord,
    Table3Record,
    find_bench_records,
    read_bench_record,
)
from scalednl.lab.records.floor import Floor, MachineLimit, Work
from scalednl.lab.records.timing import Timing
from scripts import cost_section

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
README, PAGE = (
    " ".join((ROOT / name).read_text(encoding="utf-8").split())
    for name in ("README.md", "docs/the-block.md")
)
STORED = ("table3", "scaling", "orders", "planner", "train", "half_precision", "deployment")


def _newest(kind: str) -> BenchRecord:
    """The newest record of a benchmark; the test fails without one."""
    (record,), damaged = find_bench_records([RESULTS], {kind: ALL_KINDS[kind]})
    assert damaged == []
    return record


@pytest.mark.parametrize("kind", STORED)
def test_a_record_says_where_it_comes_from(kind: str) -> None:
    """Every benchmark has full records; date, processor and threads are in record and name."""
    paths = sorted(RESULTS.glob(f"{kind}_*.json"))
    assert paths, f"no record of {kind} in {RESULTS.name}"
    for path in paths:
        record = read_bench_record(path, ALL_KINDS)
        assert record is not None
        made = record.origin
        where = f"{slug(made.machine)}_{made.threads}-threads"
        assert path.stem == f"{record.KIND}_{made.date[:10]}_{where}"
        assert not record.quick
        assert made.commit is not None


def test_every_stored_file_is_a_record() -> None:
    """No file in the folder is left unread."""
    for path in RESULTS.glob("*.json"):
        assert read_bench_record(path, ALL_KINDS) is not None, path.name


def test_the_page_quotes_orders() -> None:
    """Each setting's line is the record's, and so are the figures of lean blocks."""
    record = _newest("orders")
    assert isinstance(record, OrdersRecord)
    rows = {(row.place, row.method): row for row in record.rows}
    places = list(dict.fromkeys(row.place for row in record.rows))
    for place in places:
        auto = rows[place, "auto"]
        plain, fused = (
            auto.time.ratio(rows[place, f"softmax {m}"].time) for m in ("plain", "fused")
        )
        cells = [
            *(place, auto.order, f"{auto.time_over_associative:.2f}"),
            *(f"{auto.bytes_kept_over_associative:.2f}", f"{plain:.3f}", f"{fused:.3f}"),
        ]
        assert f"| {' | '.join(cells)} |" in PAGE
    lean = [rows[place, "auto, lean"] for place in places]
    kept = [f"{row.bytes_kept_over_associative:.2f}" for row in lean]
    times = [f"{row.time_over_associative:.2f}" for row in lean]
    assert f"{kept[0]}, {kept[1]} and {kept[2]} of the bytes" in PAGE
    assert f"at {times[0]}, {times[1]} and {times[2]} of the time" in PAGE


def test_the_readme_quotes_the_same_records() -> None:
    """Its three sentences on cost have the figures of the tables."""
    orders, table3, scaling = (_newest(kind) for kind in ("orders", "table3", "scaling"))
    assert isinstance(orders, OrdersRecord)
    assert isinstance(table3, Table3Record)
    assert isinstance(scaling, ScalingRecord)
    auto = [row for row in orders.rows if row.method == "auto"]
    times, kept = (
        "{}, {} and {} of the {}".format(*(f"{value:.2f}" for value in values), what)
        for values, what in (
            ([row.time_over_associative for row in auto], "time"),
            ([row.bytes_kept_over_associative for row in auto], "bytes"),
        )
    )
    assert times in README
    assert kept in README
    ratios = {row.method: f"x{row.train_step_ratio:.2f}" for row in table3.rows if row.heads == 4}
    assert f"{ratios['auto']} the time of a training step" in README
    assert f"associative {ratios['associative']}, fused softmax {ratios['softmax fused']}" in README
    sides = {one.method: f"{one.side}x{one.side}" for one in scaling.largest}
    assert f"on a map of {sides['auto']}; associative {sides['associative']}" in README
    assert f"plain softmax {sides['softmax plain']}" in README


def test_the_page_names_what_the_records_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of both allocators and shares of the floor appear as soon as records have them."""
    orders = _newest("orders")
    assert isinstance(orders, OrdersRecord)
    limit = MachineLimit(1e11, 1e10)
    rows = tuple(
        replace(
            row,
            time_default=Timing.of([2 * ms for ms in row.time.runs_ms], 1234),
            floor=Floor(Work(1, 1), 1.0, 0.61),
        )
        for row in orders.rows
    )
    kept = replace(orders.origin, allocator=Allocator("kept"))
    new = replace(orders, rows=rows, limit=limit, origin=kept)
    newest = cost_section.newest
    monkeypatch.setattr(
        cost_section, "newest", lambda kind: new if kind is OrdersRecord else newest(kind)
    )
    for text in (cost_section.readme_section(), cost_section.page_section()):
        assert "freed memory kept for reuse for all of them" in " ".join(text.split())
    assert "at 0.61, 0.61 and 0.61 of the rate" in _joined(cost_section.readme_section())
    assert "| share of the floor |" in cost_section.page_section()
    table = cost_section.memory_section()
    auto = next(row for row in rows if row.method == "auto")
    faults = "" if auto.time.page_faults is None else f"{auto.time.page_faults:,}"
    times = [f"{ms:,.0f}" for ms in (2 * auto.time.median_ms, auto.time.median_ms)]
    line = f"| {times[0]} | 1,234 | {times[1]} | {faults} | 0.50 |"
    assert line in table


def test_busy_records_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make results` reports records that a busy machine has made."""
    newest = cost_section.newest
    monkeypatch.setattr(cost_section, "newest", lambda kind: replace(newest(kind), waited=0.0))
    assert cost_section.busy_records() == []
    monkeypatch.setattr(cost_section, "newest", lambda kind: replace(newest(kind), waited=0.2))
    assert len(cost_section.busy_records()) == 5


def _joined(text: str) -> str:
    return " ".join(text.split())
