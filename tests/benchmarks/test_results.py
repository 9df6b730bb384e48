"""The figures of the README and of the page on the block are those of the stored records."""

import re
from pathlib import Path

import pytest

from benchmarks.goals import NEAR
from benchmarks.records import ALL_KINDS, PlannerRecord
from scalednl.lab.bench.session import slug
from scalednl.lab.records.bench import (
    BenchRecord,
    OrdersRecord,
    ScalingRecord,
    Table3Record,
    find_bench_records,
    read_bench_record,
)
from scalednl.lab.report.cost_claims import judge_costs

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


def test_the_page_quotes_table3() -> None:
    """The lines of four heads are the record's, the paper's ratios beside them."""
    record = _newest("table3")
    assert isinstance(record, Table3Record)
    named = {
        "softmax plain": "softmax, plain",
        "softmax fused": "softmax, fused",
        "associative": "scaled, associative (the paper)",
        "auto": "scaled, `auto`",
        "auto, lean": 'scaled, `memory="lean"`',
    }
    rows = {row.method: row for row in record.rows if row.heads == 4}
    for method, name in named.items():
        row = rows[method]
        cells = [
            *(name, f"x{row.train_step_ratio:.2f}", _printed(row.paper_train_step_ratio)),
            *(f"x{row.bytes_kept_ratio:.3f}", f"x{row.peak_memory_ratio:.2f}"),
            _printed(row.paper_memory_ratio),
        ]
        assert " ".join(f"| {' | '.join(cells)} |".split()) in PAGE


def test_the_page_quotes_the_verdict_on_heads() -> None:
    """What the page says of heads is the project's own verdict on the record."""
    verdicts = {one.claim: one for one in judge_costs([_newest("table3")])}
    time, memory = verdicts["heads-cost-no-time"], verdicts["heads-cost-no-memory"]
    assert memory.answer == "holds"
    middle, low, high = re.findall(r"([+-]\d+)\.\d%", time.why)[:3]
    assert f"time is {time.answer}: the verdict on the stored record is" in PAGE
    assert f"{middle} % for four heads, 90 % interval {low} % to {high} %" in PAGE


def test_the_page_quotes_the_largest_maps() -> None:
    """Sides within the budget, and the minutes of the step that was not tried."""
    record = _newest("scaling")
    assert isinstance(record, ScalingRecord)
    assert f"Within {record.settings.budget_bytes // 2**30} GiB" in PAGE
    found = {one.method: one for one in record.largest}
    for one in found.values():
        assert f"{one.side}x{one.side}" in PAGE
    assert f"{found['softmax fused'].step_seconds / 60:.0f} minutes" in PAGE


def test_the_page_quotes_the_planner() -> None:
    """How many shapes, and at how many the pick is near the fastest."""
    record = _newest("planner")
    assert isinstance(record, PlannerRecord)
    near = 100 * sum(row.regret <= NEAR for row in record.rows) / len(record.rows)
    assert f"Over {len(record.rows)} shapes" in PAGE
    assert f"within 10 % of the fastest order at {near:.0f} %" in PAGE


def _printed(ratio: float | None) -> str:
    return "" if ratio is None else f"x{ratio:.2f}"
