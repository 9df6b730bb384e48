"""Lines over logarithmic axes, side by side, each named where it ends."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scalednl.lab.charts.svg import DASHES, Axis, document, line, marker, path, spread_out, text

_TOP, _LEFT, _PLOT, _NAMES, _TALL, _BOTTOM = 66, 62, 300, 168, 300, 52


@dataclass(frozen=True)
class Series:
    """A line: its points, its colour, and its name with a second line of words below."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    note: str = ""


@dataclass(frozen=True)
class Panel:
    """One plot of a chart."""

    title: str
    series: Sequence[Series]


def line_chart(
    title: str,
    panels: Sequence[Panel],
    *,
    x_label: str,
    y_label: str,
    x_ticks: Sequence[tuple[float, str]],
    foot: str = "",
) -> str:
    """Panels with common axes; both axes are logarithmic."""
    points = [p for panel in panels for series in panel.series for p in series.points]
    assert points, "a chart needs points"
    y_low, y_high = min(y for _, y in points), max(y for _, y in points)
    parts = [text(12, 24, title, kind="title")]
    for index, panel in enumerate(panels):
        left = _LEFT + index * (_LEFT + _PLOT + _NAMES - 20)
        x = Axis(x_ticks[0][0], x_ticks[-1][0], left, left + _PLOT, log=True)
        y = Axis(_down(y_low), y_high * 1.25, _TOP + _TALL, _TOP, log=True)
        parts += _frame(panel.title, x, y, x_label, y_label, x_ticks)
        parts += _lines(panel.series, x, y)
    width = 2 + len(panels) * (_LEFT + _PLOT + _NAMES) - 20 * (len(panels) - 1)
    height = _TOP + _TALL + _BOTTOM + (22 if foot else 0)
    if foot:
        parts.append(text(12, height - 10, foot, kind="soft"))
    return document(width, height, title, parts)


def _frame(
    title: str, x: Axis, y: Axis, x_label: str, y_label: str, x_ticks: Sequence[tuple[float, str]]
) -> list[str]:
    parts = [text(x.start, _TOP - 14, title)]
    for value in y.ticks():
        parts.append(line(x.start, y(value), x.end, y(value)))
        parts.append(text(x.start - 7, y(value) + 4, f"{value:g}", anchor="end", kind="soft"))
    for value, words in x_ticks:
        parts.append(line(x(value), y.start, x(value), y.start + 5))
        parts.append(text(x(value), y.start + 19, words, anchor="middle", kind="soft"))
    parts.append(text((x.start + x.end) / 2, y.start + 40, x_label, anchor="middle"))
    parts.append(text(x.start - 46, (y.start + y.end) / 2, y_label, anchor="middle", turn=True))
    return parts


def _lines(series: Sequence[Series], x: Axis, y: Axis) -> list[str]:
    parts, ends = [], []
    for one in series:
        placed = [(x(a), y(b)) for a, b in one.points]
        parts.append(path(placed, one.colour, DASHES[one.colour]))
        parts += [
            marker(px, py, one.colour, says=f"{one.name}: {b:.4g}")
            for (px, py), (_, b) in zip(placed, one.points, strict=True)
        ]
        ends.append(placed[-1])
    # Names stand in one column at the right, as near to their line's end as they can be.
    for one, (px, py), at in zip(series, ends, spread_out([e[1] for e in ends], 34), strict=True):
        if x.end + 8 - px > 12:
            style = f"stroke:var(--{one.colour});stroke-width:1;stroke-dasharray:1 3;opacity:.7"
            parts.append(line(px + 6, py, x.end + 8, at, kind="", style=style))
        parts.append(text(x.end + 12, at + 1, one.name, colour=one.colour))
        parts.append(text(x.end + 12, at + 15, one.note, kind="soft"))
    return parts


def _down(value: float) -> float:
    """The next of 1, 2, 5, 10, ... below a value."""
    scale = 10.0 ** math.floor(math.log10(value))
    return max(s * scale for s in (0.5, 1, 2, 5) if s * scale <= value * 0.95)
