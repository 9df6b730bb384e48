"""The README's figures are those of the records that lie beside it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalednl.lab.bench.session import slug
from scalednl.lab.report.cost_claims import judge_costs

ROOT = Path(__file__).parents[3]
RECORDS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
README = (ROOT / "README.md").read_text()


def _newest(name: str) -> dict[str, Any]:
    """The newest record of a benchmark; names begin with it and the date."""
    return json.loads(
        [path for path in RECORDS if path.name.startswith(f"{name}_")][-1].read_text()
    )


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_a_record_says_where_it_comes_from(path: Path) -> None:
    """Benchmark, date, processor and threads are in the record and in its name."""
    record = json.loads(path.read_text())
    origin = record["origin"]
    name = record["schema"].split(".")[2]
    threads = f"{origin['threads']}-threads"
    assert path.stem == f"{name}_{origin['date'][:10]}_{slug(origin['machine'])}_{threads}"
    assert not record["quick"]
    assert origin["commit"] is not None


def _orders_in_the_readme() -> None:
    """Each setting's line is the record's."""
    rows = {
        (r["batch"], r["channels"], r["height"], r["method"]): r for r in _newest("orders")["rows"]
    }
    for batch, channels, side in {key[:3] for key in rows}:
        auto, plain, fused = (
            rows[batch, channels, side, method]
            for method in ("auto", "softmax plain", "softmax fused")
        )
        time = auto["time"]["median_ms"]
        cells = [
            f"B{batch} C{channels} {side}x{side}",
            auto["order"],
            f"{auto['time_over_associative']:.2f}",
            f"{auto['bytes_kept_over_associative']:.2f}",
            f"{time / plain['time']['median_ms']:.3f}",
            f"{time / fused['time']['median_ms']:.3f}",
        ]
        assert f"| {' | '.join(cells)} |" in README


def _table3_in_the_readme() -> None:
    """The lines of four heads are the record's, the paper's ratios beside them."""
    named = {
        "softmax plain": "softmax, plain",
        "softmax fused": "softmax, fused",
        "associative": "scaled, associative (the paper)",
        "auto": "scaled, `auto`",
        "auto, lean": 'scaled, `memory="lean"`',
    }
    for row in _newest("table3")["rows"]:
        if row["heads"] != 4 or row["method"] not in named:
            continue
        cells = [
            named[row["method"]],
            f"x{row['train_step_ratio']:.2f}",
            _printed(row["paper_train_step_ratio"]),
            f"x{row['bytes_kept_ratio']:.3f}",
            f"x{row['peak_memory_ratio']:.2f}",
            _printed(row["paper_memory_ratio"]),
        ]
        assert f"| {' | '.join(cells)} |" in README


def _cost_verdict_in_the_readme() -> None:
    """What the README says of heads is the project's own verdict on the record."""
    verdicts = {one.claim: one for one in judge_costs([_newest("table3")])}
    time, memory = verdicts["heads-cost-no-time"], verdicts["heads-cost-no-memory"]
    assert memory.answer == "holds"
    middle, low, high = re.findall(r"([+-]\d+)\.\d%", time.why)[:3]
    words = " ".join(README.split())
    assert f"time is {time.answer}: the verdict on the stored record is" in words
    assert f"{middle} % for four heads, 90 % interval {low} % to {high} %" in words


def _largest_maps_in_the_readme() -> None:
    """So are the largest maps within the budget."""
    for one in _newest("scaling")["largest"]:
        assert f"{one['side']}x{one['side']}" in README


def _printed(ratio: float | None) -> str:
    return "" if ratio is None else f"x{ratio:.2f}"


QUOTED: dict[str, Callable[[], None]] = {
    "orders": _orders_in_the_readme,
    "table3": _table3_in_the_readme,
    "table3_verdicts": _cost_verdict_in_the_readme,
    "scaling": _largest_maps_in_the_readme,
}


@pytest.mark.parametrize("name", QUOTED)
def test_the_readme_quotes_the_newest_record(name: str) -> None:
    """The figures of every record that the README quotes are the record's."""
    QUOTED[name]()
