"""Rows of dots."""

import pytest

from scalednl.lab.charts.dots import Dot, Row, dot_chart
from tests.lab.charts.builders import SVG, assert_self_contained, parsed, texts

ROWS = [
    Row("heading"),
    Row("one", "blue", [[Dot(1.5, "x1.50", 1.4, 1.7), Dot(1.2, "paper", hollow=True)]]),
]


def test_a_chart_is_self_contained() -> None:
    """It is XML, reads its title out, follows the colour scheme, and asks nobody for anything."""
    assert_self_contained(dot_chart("Ratios", ["time"], ROWS, start=1, foot="here"), "Ratios")


def test_values_stand_right_of_the_rightmost_dot() -> None:
    """The first filled dot's words stand after the spread; hollow dots are titles only."""
    found = texts(dot_chart("Ratios", ["time"], ROWS, start=1))
    (spread,) = [
        line
        for line in parsed(dot_chart("Ratios", ["time"], ROWS, start=1)).iter(f"{SVG}line")
        if "--blue" in line.get("style", "")
    ]
    assert found["x1.50"][0] == pytest.approx(float(spread.get("x2", 0)) + 9, abs=0.1)
    assert "paper" not in found
    assert found["heading"][0] < found["one"][0]


@pytest.mark.parametrize(
    ("values", "first"), [([1.2, 1.8], 1.0), ([0.93, 1.8], 0.9), ([1.0, 1.0], 1.0)]
)
def test_an_axis_starts_where_it_is_told_or_below_a_smaller_value(
    values: list[float], first: float
) -> None:
    """A value below the start moves it down to a twentieth; equal values leave some room."""
    rows = [Row("row", "red", [[Dot(value, f"x{value}")]]) for value in values]
    words = texts(dot_chart("Ratios", ["time"], rows, start=1))
    ticks = [float(word) for word in words if word[0] in "012"]
    assert min(ticks) == first
    left = min(x for word, (x, _) in words.items() if word[0] in "012")
    assert words[f"{first:g}"][0] == left


def test_a_dot_may_have_its_own_colour_and_a_reference_its_line() -> None:
    """A dot's colour wins over its row's, and the reference is one line per column."""
    rows = [Row("one", "blue", [[Dot(1.5, "x1.50", 1.4, 1.7, colour="grey")], [Dot(1.2, "x1.20")]])]
    chart = dot_chart("Ratios", ["time", "bytes"], rows, start=0, reference=1.0)
    root = parsed(chart)
    colours = [path.get("style", "").split(";")[0] for path in root.iter(f"{SVG}path")]
    assert colours == ["stroke:var(--grey)", "stroke:var(--blue)"]
    lines = [line for line in root.iter(f"{SVG}line") if "currentColor" in line.get("style", "")]
    assert len(lines) == 2
