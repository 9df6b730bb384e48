"""Each chart of a benchmark is one function of its record."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from xml.etree import ElementTree

import pytest

from scalednl.lab.charts.cost import draw, scaling_chart
from scalednl.lab.charts.svg import NARROW
from scalednl.lab.records.bench import (
    KINDS,
    BenchRecord,
    OrdersRecord,
    OrdersRow,
    ScalingPoint,
    ScalingRecord,
    find_bench_records,
)
from scalednl.lab.records.floor import Floor, MachineLimit, Work
from scalednl.lab.records.methods import METHODS
from scalednl.lab.report.content import cost_section
from tests.lab.charts.builders import SVG, parsed

Row = TypeVar("Row", OrdersRow, ScalingPoint)
RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def _stored(kind: str) -> BenchRecord:
    (record,), _ = find_bench_records([RESULTS], {kind: KINDS[kind]})
    return record


@pytest.mark.parametrize("kind", ["table3", "scaling", "orders"])
def test_the_page_and_the_file_have_the_same_chart(kind: str) -> None:
    """The stored SVG is the chart of the stored record, and the report shows the same."""
    record = _stored(kind)
    (file,) = RESULTS.glob(f"{kind}_{record.origin.date[:10]}_*.svg")
    assert file.read_text(encoding="utf-8") == draw(record), "draw it again from the record"
    assert cost_section(record).chart == draw(record)


def test_the_caption_says_what_was_fitted() -> None:
    """The exponents beside the lines are the record's, of the three largest sizes."""
    record = _stored("scaling")
    assert isinstance(record, ScalingRecord)
    words = [text.text or "" for text in ElementTree.fromstring(scaling_chart(record)).iter()]
    assert any("exponents: of the 3 largest sizes" in word for word in words)
    for exponent in record.exponents:
        assert f"grows as N^{exponent.pixels_to_the_power:.2f}" in words
        assert METHODS[exponent.method].label in words


def test_a_record_of_one_size_is_drawn() -> None:
    """One size gives points without an exponent."""
    record = _stored("scaling")
    assert isinstance(record, ScalingRecord)
    first = tuple(point for point in record.by_side if point.height == 8)
    chart = scaling_chart(replace(record, by_side=first, exponents=()))
    assert ElementTree.fromstring(chart).tag.endswith("svg")
    assert "nan" not in chart


@pytest.mark.parametrize("kind", sorted({"table3", "scaling", "orders"}))
def test_a_narrow_chart_says_the_same(kind: str) -> None:
    """Every value of the wide chart is in the narrow one, and no text begins outside of it."""
    record = _stored(kind)
    wide, narrow = draw(record), draw(record, narrow=True)
    said = {element.text for element in parsed(wide).iter(f"{SVG}title")}
    assert said == {element.text for element in parsed(narrow).iter(f"{SVG}title")} != set()
    picture = parsed(narrow)
    assert float(picture.get("width", 0)) == NARROW
    for element in picture.iter(f"{SVG}text"):
        assert 0 <= float(element.get("x", -1)) < NARROW
        assert 0 < float(element.get("y", -1)) <= float(picture.get("height", 0))


def test_the_limit_is_drawn_where_it_is_known() -> None:
    """A line in the chart of growth, and a hollow mark per row in that of the orders."""
    scaling, orders = _stored("scaling"), _stored("orders")
    assert isinstance(scaling, ScalingRecord)
    assert isinstance(orders, OrdersRecord)
    floor, limit = Floor(Work(1, 1), 0.5, 0.25), MachineLimit(1e11, 1e10)
    plain = draw(replace(scaling, limit=None, by_side=_floored(scaling.by_side, None)))
    assert "floor of auto" not in plain
    assert "floor of auto: 0.5" in draw(replace(scaling, by_side=_floored(scaling.by_side, floor)))
    drawn = draw(replace(orders, limit=limit, rows=_floored(orders.rows, floor)))
    for row in orders.rows:
        assert f"floor x{0.25 * row.time_over_associative:.2f}" in drawn
    assert "(hollow: the machine" in drawn


def _floored(rows: Sequence[Row], floor: Floor | None) -> tuple[Row, ...]:
    return tuple(replace(row, floor=floor) for row in rows)
