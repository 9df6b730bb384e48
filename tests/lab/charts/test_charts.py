"""Charts are complete SVG files: no fetching, text as text, legible on any page."""

import subprocess
import sys
from xml.etree import ElementTree

import pytest

from scalednl.lab.charts import Curve, Dot, Plot, Row, curve_chart, dot_chart, log_chart
from scalednl.lab.charts.svg import Axis, spread_out

SVG = "{http://www.w3.org/2000/svg}"


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


def _dots() -> str:
    rows = [
        Row("heading"),
        Row("one", "blue", [[Dot(1.5, "x1.50", 1.4, 1.7), Dot(1.2, "paper", hollow=True)]]),
    ]
    return dot_chart("Ratios", ["time"], rows, start=1, foot="here")


CHARTS = {"lines": _lines(), "curves": _curves(), "dots": _dots()}


@pytest.mark.parametrize("chart", CHARTS.values(), ids=list(CHARTS))
def test_a_chart_is_self_contained(chart: str) -> None:
    """It is XML, says its title aloud, follows the colour scheme, and asks nobody for anything."""
    root = ElementTree.fromstring(chart)
    assert root.tag == f"{SVG}svg"
    assert root.get("aria-label") in ("Time", "Error", "Ratios")
    assert "prefers-color-scheme:dark" in chart
    for fetched in ("href", "url(", "@import", "<script", "<image"):
        assert fetched not in chart


@pytest.mark.parametrize("chart", CHARTS.values(), ids=list(CHARTS))
def test_everything_is_inside_the_picture(chart: str) -> None:
    """No text and no line begins outside of the picture, and no number is missing."""
    root = ElementTree.fromstring(chart)
    _, _, width, height = (float(v) for v in root.get("viewBox", "").split())
    for element in root.iter():
        for name in ("x", "x1", "x2"):
            assert 0 <= float(element.get(name, 0)) <= width
        for name in ("y", "y1", "y2"):
            assert 0 <= float(element.get(name, 0)) <= height
    assert "nan" not in chart


def test_names_are_written_beside_their_lines() -> None:
    """Series are labelled directly, with what was said of them, and escaped."""
    words = {text.text for text in ElementTree.fromstring(_lines()).iter(f"{SVG}text")}
    assert {"softmax <plain>", "auto & co", "grows as N^1.8", "pixels", "ms", "here"} <= words


def test_axes_place_values_and_pick_round_ticks() -> None:
    """Logarithmic and linear scales hit both ends; ticks lie within."""
    log = Axis(1, 1000, 0, 300, log=True)
    assert [log(v) for v in (1, 10, 1000)] == pytest.approx([0, 100, 300])
    assert log.ticks() == pytest.approx([1, 10, 100, 1000])
    linear = Axis(1, 2, 0, 100, log=False)
    assert linear(1.5) == 50
    assert linear.ticks() == pytest.approx([1, 1.2, 1.4, 1.6, 1.8, 2])


def test_labels_make_room_for_each_other() -> None:
    """Places too close move apart by as little as it takes; others stay."""
    assert spread_out([100, 10, 12], 10) == pytest.approx([100, 6, 16])


def test_charts_and_the_papers_numbers_need_no_torch() -> None:
    """Reading and drawing do not import torch."""
    modules = "scalednl.lab.charts, scalednl.lab.paper.tables"
    code = f"import sys, {modules}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_dot_may_have_its_own_colour_and_a_reference_its_line() -> None:
    """A dot's colour wins over its row's, and the reference is one line per column."""
    rows = [Row("one", "blue", [[Dot(1.5, "x1.50", 1.4, 1.7, colour="grey")], [Dot(1.2, "x1.20")]])]
    chart = dot_chart("Ratios", ["time", "bytes"], rows, start=0, reference=1.0)
    root = ElementTree.fromstring(chart)
    colours = [path.get("style", "").split(";")[0] for path in root.iter(f"{SVG}path")]
    assert colours == ["stroke:var(--grey)", "stroke:var(--blue)"]
    lines = [line for line in root.iter(f"{SVG}line") if "currentColor" in line.get("style", "")]
    assert len(lines) == 2
