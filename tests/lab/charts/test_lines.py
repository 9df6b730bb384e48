"""Lines over common axes."""

import subprocess
import sys

import pytest

from scalednl.lab.charts.lines import Curve, Plot, curve_chart, log_chart
from tests.lab.charts.builders import SVG, assert_self_contained, parsed, texts


def _lines() -> str:
    curves = [
        Curve("softmax <plain>", "red", [(64, 1.0), (256, 12.0)], note="grows as N^1.8"),
        Curve("auto & co", "green", [(64, 1.1), (256, 2.0)], note="grows as N^0.4"),
    ]
    ticks = [(64.0, "8²"), (256.0, "16²")]
    plots = [Plot("forward", curves), Plot("backward", curves)]
    return log_chart("Time", plots, x_label="pixels", y_label="ms", x_ticks=ticks, foot="here")


def _curves() -> str:
    band = [(1, 40.0, 60.0), (2, 25.0, 35.0)]
    curves = [
        Curve("softmax <plain>", "red", [(1, 50.0), (2, 30.0)], band),
        Curve("auto & co", "green", [(1, 45.0), (2, 20.0)]),
    ]
    plots = [Plot(f"{count} blocks", curves) for count in range(5)]
    return curve_chart("Error", plots, x_label="epoch", y_label="%", foot="here")


CHARTS = {"Time": _lines(), "Error": _curves()}


@pytest.mark.parametrize("title", CHARTS)
def test_a_chart_is_self_contained(title: str) -> None:
    """It is XML, reads its title out, follows the colour scheme, and asks nobody for anything."""
    assert_self_contained(CHARTS[title], title)


def test_names_are_written_beside_their_lines() -> None:
    """Series are labelled directly, with what was said of them, and escaped."""
    words = texts(_lines()).keys()
    assert {"softmax <plain>", "auto & co", "grows as N^1.8", "pixels", "ms", "here"} <= words


def test_charts_and_the_papers_numbers_need_no_torch() -> None:
    """Reading and drawing do not import torch."""
    modules = "scalednl.lab.charts, scalednl.lab.paper.tables"
    code = f"import sys, {modules}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_name_is_once_in_the_key() -> None:
    """Plots share their key; a name that does not fit goes to the next line."""
    long = [Curve(f"{'x' * 30}{n}", "red", [(0, 1.0), (1, 2.0)]) for n in range(4)]
    chart = curve_chart("E", [Plot("a", long), Plot("b", long)], x_label="epoch", y_label="%")
    words = [one.text for one in parsed(chart).iter(f"{SVG}text")]
    assert [words.count(curve.name) for curve in long] == [1] * 4
    places = [texts(chart)[curve.name] for curve in long]
    assert len({y for _, y in places}) > 1
    assert len(set(places)) == 4


def test_few_points_are_marked_and_many_only_at_their_end() -> None:
    """Each marker says its value under the pointer."""
    for count, marked in ((16, 16), (17, 1)):
        curve = Curve("a", "blue", [(float(x), 1.0 + x) for x in range(count)])
        chart = curve_chart("E", [Plot("", [curve])], x_label="epoch", y_label="%")
        says = [one.text for one in parsed(chart).iter(f"{SVG}title")]
        assert len(says) == marked
        assert says[-1] == f"a: {count}"


def test_words_in_place_of_numbers_are_all_inside() -> None:
    """Ticks without a point yet have their room."""
    ticks = [(float(at), name) for at, name in enumerate("abcd")]
    curve = Curve("one", "blue", [(1.0, 5.0), (2.0, 4.0)])
    found = texts(curve_chart("E", [Plot("", [curve])], x_label="", y_label="%", x_ticks=ticks))
    assert found["a"][0] < found["b"][0] < found["c"][0] < found["d"][0]


def test_a_band_goes_there_and_back() -> None:
    """Its polygon has the upper edge from left to right, then the lower one back."""
    curve = Curve("a", "blue", [(1, 2.0), (2, 2.0)], [(1, 1.0, 3.0), (2, 1.5, 2.5)])
    chart = curve_chart("E", [Plot("", [curve])], x_label="epoch", y_label="%")
    (polygon,) = parsed(chart).iter(f"{SVG}polygon")
    corners = [tuple(map(float, c.split(","))) for c in polygon.get("points", "").split()]
    (x1, high1), (x2, high2), (x3, low2), (x4, low1) = corners
    assert (x1, x2) == (x4, x3)
    assert x1 < x2
    assert high1 < high2 < low2 < low1
