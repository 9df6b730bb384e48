"""Judged differences in one figure."""

from pathlib import Path

import pytest

from scalednl.lab.paper.answers import OPEN
from scalednl.lab.report.content import build_content
from scalednl.lab.report.html import render_page
from scalednl.lab.report.verdict_chart import verdict_figures
from scalednl.lab.report.verdicts import Verdict
from tests.lab.charts.builders import SVG, parsed, texts
from tests.lab.report.judging import write_contrast

CLAIM = "position-helps-alone"


def _verdicts(folder: Path, difference: float, n: int, spread: float = 1.0) -> list[Verdict]:
    write_contrast(folder, CLAIM, difference, n, spread=spread)
    return list(build_content([folder]).verdicts)


@pytest.mark.parametrize(
    ("difference", "spread", "colour"),
    [(3.0, 1.0, "green"), (-3.0, 1.0, "red"), (0.1, 1.0, "blue"), (1.0, 9.0, "grey")],
)
def test_a_verdict_has_its_colour(
    tmp_path: Path, difference: float, spread: float, colour: str
) -> None:
    """Holds, does not hold, no difference that matters, and open, which alone is hollow."""
    verdicts = _verdicts(tmp_path, difference, 6, spread)
    (figure,) = verdict_figures(verdicts)
    (item,) = [one for one in verdicts if one.claim == CLAIM]
    for chart in (figure.chart, figure.narrow):
        words = texts(chart)
        assert any(item.says.startswith(one) for one in words if len(one) > 12)
        (marker,) = [
            path
            for path in parsed(chart).iter(f"{SVG}path")
            if (title := path.find(f"{SVG}title")) is not None
            and (title.text or "").startswith(f"{difference:+.2f}".replace("-", "−"))
        ]
        assert f"var(--{colour})" in marker.get("style", "")
        assert ("fill:none" in marker.get("style", "")) == (item.answer == OPEN)


def test_what_waits_for_seeds_is_not_drawn(tmp_path: Path) -> None:
    """Three seeds are before the first look: no figure, and the page has none."""
    assert not verdict_figures(_verdicts(tmp_path, 3.0, 3))
    assert "What the runs say" not in render_page(build_content([tmp_path]))


def test_the_page_has_the_figure(tmp_path: Path) -> None:
    """The page shows it once for wide windows and once for phones."""
    _verdicts(tmp_path, 3.0, 6)
    assert render_page(build_content([tmp_path])).count('aria-label="What the runs say') == 2
