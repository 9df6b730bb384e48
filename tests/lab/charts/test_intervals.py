"""Means with their intervals."""

import pytest

from scalednl.lab.charts.intervals import Interval, interval_chart
from tests.lab.charts.builders import SVG, assert_self_contained, parsed, texts

ROWS = [
    Interval("Blocks help", -0.5, -1.5, 0.5, 1.0, "−0.50", "red"),
    Interval("Position helps", 0.2, -0.1, 0.5, 1.0, "+0.20", "blue", hollow=True),
]


def _lines(chart: str, colour: str) -> list[tuple[float, float]]:
    """Both ends of the horizontal lines of a colour."""
    return [
        (float(one.get("x1", 0)), float(one.get("x2", 0)))
        for one in parsed(chart).iter(f"{SVG}line")
        if colour in one.get("style", "") and one.get("y1") == one.get("y2")
    ]


@pytest.mark.parametrize("narrow", [False, True])
def test_a_chart_is_self_contained(narrow: bool) -> None:
    """It is XML, reads its title out, follows the colour scheme, and fetches nothing."""
    chart = interval_chart("Claims", [("Main", ROWS)], limit=5, foot="points", narrow=narrow)
    assert_self_contained(chart, "Claims")
    assert {"Main", "Blocks help", "−0.50", "points"} <= texts(chart).keys()


@pytest.mark.parametrize("narrow", [False, True])
def test_intervals_and_margins_stand_at_their_values(narrow: bool) -> None:
    """Lengths are in proportion; the margin is centred at 0 and the mean within its interval."""
    chart = interval_chart("Claims", [("", ROWS)], limit=5, narrow=narrow)
    ((low, high),) = _lines(chart, "--red")
    (left, right), _ = _lines(chart, "stroke-width:12")
    assert high - low == pytest.approx(right - left, abs=0.2)  # both are 2 wide
    unit = (right - left) / 2
    assert (low + high) / 2 == pytest.approx((left + right) / 2 - 0.5 * unit, abs=0.2)
    assert texts(chart)["0"][0] == pytest.approx((left + right) / 2, abs=0.2)


def test_an_arrow_points_to_what_is_beyond_the_limit() -> None:
    """An interval that leaves the axis ends in an arrow, and a mean beyond it has no marker."""
    far = Interval("far", 9.0, -1.0, 20.0, 1.0, "+9.00", "green")
    chart = interval_chart("Claims", [("", [far])], limit=5)
    root = parsed(chart)
    assert "▸" in texts(chart)
    assert "◂" not in texts(chart)
    assert not list(root.iter(f"{SVG}path"))
    assert "+9.00" in texts(chart)


def test_long_names_take_several_lines_that_do_not_overlap() -> None:
    """A name is wrapped, and the next row begins below it."""
    long = Interval(" ".join(f"word{i}" for i in range(30)), 0.0, -1.0, 1.0, 1.0, "0", "grey")
    next_row = Interval("next", 0.0, -1.0, 1.0, 1.0, "0", "grey")
    found = texts(interval_chart("Claims", [("", [long, next_row])], limit=5))
    lines = sorted(y for words, (_, y) in found.items() if words.startswith("word"))
    assert len(lines) > 1
    assert found["next"][1] - lines[-1] >= lines[1] - lines[0]
