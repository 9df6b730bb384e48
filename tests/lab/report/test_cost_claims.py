"""Claims about cost, from constructed records and from the one in the repository."""

import json
from pathlib import Path
from typing import Any

import pytest

from scalednl.lab.paper.answers import FAILS, HOLDS, OPEN
from scalednl.lab.report.cost_claims import HEADS, judge_costs

ROOT = Path(__file__).parents[3]
NOISE = (0.0, 0.4, -0.3, 0.2, -0.5, 0.1, 0.3)


def _turned(by: int) -> list[float]:
    """The noise in another order, so that it does not cancel in differences."""
    return [NOISE[(i + by) % len(NOISE)] for i in range(len(NOISE))]


def _table3(
    softmax_ms: float = 100.0,
    scaled_ms: dict[int, float] | None = None,
    softmax_kept: Any = lambda heads: 700e6 + 50e6 * heads,
    scaled_kept: Any = lambda heads: 710e6 + 1e6 / heads,
    per_head: Any = lambda heads: heads,
) -> dict[str, Any]:
    scaled_ms = scaled_ms or dict.fromkeys(HEADS, 50.0)
    rows = []
    for method, kept in (("softmax plain", softmax_kept), ("associative", scaled_kept)):
        for heads in HEADS:
            softmax = method == "softmax plain"
            middle = softmax_ms + 20 * per_head(heads) if softmax else scaled_ms[heads]
            rows.append(
                {
                    "method": method,
                    "heads": heads,
                    "bytes_kept": kept(heads),
                    "train_step": {"runs_ms": [middle + x for x in _turned(heads + 3 * softmax)]},
                }
            )
    return {
        "schema": "scalednl.bench.table3.v1",
        "origin": {"machine": "a machine"},
        "settings": {"batch": 2},
        "rows": rows,
    }


def _scaling(power: float, spread: float = 0.02) -> dict[str, Any]:
    rows = [
        {
            "method": method,
            "mode": "forward + backward",
            "height": side,
            "width": side,
            "time": {
                "runs_ms": [1e-3 * side ** (2 * power) * (1 + spread * x) for x in _turned(turn)]
            },
        }
        for method in ("associative", "auto")
        for turn, side in enumerate((32, 64, 128, 256))
    ]
    return {
        "schema": "scalednl.bench.scaling.v1",
        "origin": {},
        "settings": {"batch": 1},
        "by_side": rows,
    }


def _answers(record: dict[str, Any]) -> dict[str, str]:
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
        ("softmax-time-is-linear-in-heads", _table3(per_head=lambda heads: heads**2), FAILS),
        ("softmax-time-is-linear-in-heads", _table3(per_head=lambda heads: 1 / heads), OPEN),
    ],
)
def test_records_that_say_otherwise(claim: str, record: dict[str, Any], answer: str) -> None:
    """Each claim fails, or stays open, where the record is not as claimed."""
    assert _answers(record)[claim] == answer


@pytest.mark.parametrize(
    ("power", "spread", "answer"),
    [(1.0, 0.02, HOLDS), (1.3, 0.02, FAILS), (0.7, 0.02, FAILS), (1.09, 0.5, OPEN)],
)
def test_linear_in_pixels(power: float, spread: float, answer: str) -> None:
    """The exponent of time over pixels against 1, by its interval."""
    assert _answers(_scaling(power, spread))["scaled-time-is-linear-in-pixels"] == answer


def test_quick_and_damaged_records_decide_nothing() -> None:
    """A quick record is not judged; one with a hole decides what it still can, without an error."""
    assert judge_costs([{**_table3(), "quick": True}]) == []
    holed = _table3()
    holed["rows"] = [row for row in holed["rows"] if row["method"] == "softmax plain"]
    assert set(_answers(holed)) == {
        "softmax-memory-is-linear-in-heads",
        "softmax-time-is-linear-in-heads",
    }
    broken = _table3()
    broken["rows"][0]["bytes_kept"] = None
    broken["rows"][4]["train_step"]["runs_ms"] = ["x"]
    assert "softmax-memory-is-linear-in-heads" not in _answers(broken)


def test_the_stored_records_are_judged() -> None:
    """All eight claims get an answer from the records of this repository."""
    records = [
        json.loads(path.read_text(encoding="utf-8"))
        for kind in ("table3", "scaling")
        for path in sorted((ROOT / "benchmarks/results").glob(f"{kind}_*.json"))[-1:]
    ]
    found = {one.claim: one for one in judge_costs(records)}
    assert len(found) == 8
    assert found["softmax-memory-is-linear-in-heads"].answer == HOLDS
    assert "+50.33 MB per head" in found["softmax-memory-is-linear-in-heads"].why
