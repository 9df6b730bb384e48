"""Claims about cost, from constructed records and from those in the repository."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.lab.paper.answers import FAILS, HOLDS, OPEN
from scalednl.lab.records import origin
from scalednl.lab.records.bench import (
    SCHEMA,
    BenchRecord,
    ScalingPoint,
    ScalingRecord,
    ScalingSettings,
    Table3Record,
    Table3Row,
    Table3Settings,
    find_bench_records,
)
from scalednl.lab.records.timing import Timing
from scalednl.lab.report.cost_claims import HEADS, judge_costs

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
NOISE = (0.0, 0.4, -0.3, 0.2, -0.5, 0.1, 0.3)


def _turned(by: int) -> list[float]:
    """The noise in another order, so that it does not cancel in differences."""
    return [NOISE[(i + by) % len(NOISE)] for i in range(len(NOISE))]


def _row(method: str, heads: int, middle_ms: float, kept: float) -> Table3Row:
    turn = heads + 3 * (method == "softmax plain")
    step = Timing.of([middle_ms + noise for noise in _turned(turn)])
    return Table3Row(method, heads, step, 1.0, None, round(kept), 1.0, 1, 1.0, None, None)


def _table3(
    softmax_ms: float = 100.0,
    scaled_ms: Mapping[int, float] | None = None,
    softmax_kept: Callable[[int], float] = lambda heads: 700e6 + 50e6 * heads,
    scaled_kept: Callable[[int], float] = lambda heads: 710e6 + 1e6 / heads,
    per_head: Callable[[int], float] = float,
) -> Table3Record:
    scaled_ms = scaled_ms or dict.fromkeys(HEADS, 50.0)
    rows = [
        _row("softmax plain", heads, softmax_ms + 20 * per_head(heads), softmax_kept(heads))
        for heads in HEADS
    ]
    rows += [_row("associative", heads, scaled_ms[heads], scaled_kept(heads)) for heads in HEADS]
    return Table3Record(
        schema=f"{SCHEMA}table3.v1",
        origin=origin(),
        settings=Table3Settings(batch=2, repeats=7),
        rows=tuple(rows),
    )


def _scaling(power: float, spread: float = 0.02) -> ScalingRecord:
    points = [
        ScalingPoint(
            *(method, "forward + backward", 64, side, side),
            time=Timing.of(
                [1e-1 * side ** (2 * power) * (1 + spread * noise) for noise in _turned(turn)]
            ),
        )
        for method in ("associative", "auto")
        for turn, side in enumerate((32, 64, 128, 256))
    ]
    return ScalingRecord(
        schema=f"{SCHEMA}scaling.v1",
        origin=origin(),
        settings=ScalingSettings(batch=1, heads=4, repeats=7, budget_bytes=2**30),
        by_side=tuple(points),
    )


def _answers(record: BenchRecord) -> dict[str, str]:
    return {one.claim: one.answer for one in judge_costs([record])}


def test_what_the_paper_says_about_heads() -> None:
    """A record in which everything is as claimed: all six claims hold."""
    assert set(_answers(_table3()).values()) == {HOLDS}
    assert len(_answers(_table3())) == 6


@pytest.mark.parametrize(
    ("claim", "record", "answer"),
    [
        ("heads-cost-no-time", _table3(scaled_ms={1: 50, 2: 52, 4: 60, 8: 70}), FAILS),
        ("heads-cost-no-time", _table3(scaled_ms={1: 50, 2: 50, 4: 52.5, 8: 53}), OPEN),
        ("heads-cost-no-memory", _table3(scaled_kept=lambda heads: 700e6 + heads), FAILS),
        (
            "scaled-costs-less-time",
            _table3(softmax_ms=10.0, per_head=lambda heads: heads / 16),
            FAILS,
        ),
        ("scaled-needs-less-memory", _table3(scaled_kept=lambda heads: 760e6 + 1 / heads), FAILS),
        ("softmax-memory-is-linear-in-heads", _table3(softmax_kept=lambda h: 7e8 + h**2), FAILS),
        ("softmax-memory-is-linear-in-heads", _table3(softmax_kept=lambda _: 7e8), FAILS),
        ("softmax-time-is-linear-in-heads", _table3(per_head=lambda heads: heads**2), FAILS),
        ("softmax-time-is-linear-in-heads", _table3(per_head=lambda heads: 1 / heads), OPEN),
    ],
)
def test_records_that_say_otherwise(claim: str, record: BenchRecord, answer: str) -> None:
    """Each claim fails, or stays open, where the record is not as claimed."""
    assert _answers(record)[claim] == answer


@pytest.mark.parametrize(
    ("power", "spread", "answer"),
    [(1.0, 0.02, HOLDS), (1.3, 0.02, FAILS), (0.7, 0.02, FAILS), (1.09, 0.5, OPEN)],
)
def test_linear_in_pixels(power: float, spread: float, answer: str) -> None:
    """The exponent of time over pixels against 1, by its interval."""
    assert _answers(_scaling(power, spread))["scaled-time-is-linear-in-pixels"] == answer


def test_quick_and_incomplete_records_decide_what_they_can() -> None:
    """A quick record is not judged; one with missing rows or rounds decides what it still can."""
    assert judge_costs([replace(_table3(), quick=True)]) == []
    full = _table3()
    softmax = tuple(row for row in full.rows if row.method == "softmax plain")
    about_softmax = {"softmax-memory-is-linear-in-heads", "softmax-time-is-linear-in-heads"}
    assert set(_answers(replace(full, rows=softmax))) == about_softmax
    cut = replace(full.rows[-2], train_step=Timing.of([1.0, 2.0]))
    assert (cut.method, cut.heads) == ("associative", 4)
    assert set(_answers(replace(full, rows=(*full.rows[:-2], cut, full.rows[-1])))) == about_softmax
    assert judge_costs([replace(_scaling(1.0), by_side=_scaling(1.0).by_side[:1])]) == []


def test_the_stored_records_are_judged() -> None:
    """All eight claims get an answer from the records of this repository."""
    records, damaged = find_bench_records([RESULTS])
    assert damaged == []
    found = {one.claim: one for one in judge_costs(records)}
    assert len(found) == 8
    assert found["softmax-memory-is-linear-in-heads"].answer == HOLDS
    assert "+50.33 MB per head" in found["softmax-memory-is-linear-in-heads"].why


def test_times_of_a_busy_machine_decide_nothing() -> None:
    """Claims about time are open and say why; what is counted exactly is decided as ever."""
    for record in (_table3(), _scaling(1.0)):
        calm = {one.claim: one for one in judge_costs([replace(record, waited=0.01)])}
        busy = {one.claim: one for one in judge_costs([replace(record, waited=0.3)])}
        assert calm.keys() == busy.keys()
        for name, verdict in busy.items():
            if "memory" in name:
                assert verdict == calm[name]
            else:
                assert (calm[name].answer, verdict.answer) == (HOLDS, OPEN)
                assert verdict.why.startswith("the machine was busy: threads waited for a core 30%")
