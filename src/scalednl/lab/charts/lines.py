"""Lines over common axes, in plots side by side: logarithmic or linear."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scalednl.lab.charts.svg import (
    DASHES,
    LINE,
    NARROW,
    Axis,
    document,
    line,
    marker,
    paragraph,
    path,
    spread_out,
    text,
)

_LEFT, _TOP, _BOTTOM, _GAP, _TALL = 58, 84, 48, 22, 190
_WIDTHS = {1: 520, 2: 330, 3: 250}
_WIDTH = 215
_PER_ROW = 4
_LOG_TOP, _LOG_LEFT, _LOG_WIDE, _LOG_TALL, _NAMES = 66, 62, 300, 300, 168
_LOG_NARROW = 160


@dataclass(frozen=True)
class Curve:
    """A line with its name, and an optional band and note; few points are drawn as markers too."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()
    """x, low, high"""
    note: str = ""
    """A second line below the name, where names stand beside the lines"""


@dataclass(frozen=True)
class Plot:
    """One plot of a chart."""

    title: str
    curves: Sequence[Curve]


Ticks = Sequence[tuple[float, str]]


def log_chart(
    title: str,
    plots: Sequence[Plot],
    *,
    x_label: str,
    y_label: str,
    x_ticks: Ticks,
    foot: str = "",
    narrow: bool = False,
) -> str:
    """Plots over two logarithmic axes, each line named where it ends; `narrow` is for phones."""
    values = [y for plot in plots for curve in plot.curves for _, y in curve.points]
    assert values, "a chart needs points"
    parts = paragraph(24, title, kind="title", narrow=narrow)
    start = _LOG_TOP + LINE * (len(parts) - 1)
    wide = _LOG_NARROW if narrow else _LOG_WIDE
    across, down = _LOG_LEFT + wide + _NAMES - 20, _LOG_TALL + 76
    for index, plot in enumerate(plots):
        left = _LOG_LEFT + (0 if narrow else index * across)
        top = start + (index * down if narrow else 0)
        x = Axis(x_ticks[0][0], x_ticks[-1][0], left, left + wide, log=True)
        bottom = top + _LOG_TALL
        y = Axis(_round_below(min(values)), max(values) * 1.25, bottom, top, log=True)
        parts += _frame(plot.title, x, y, x_label, x_ticks)
        parts.append(text(left - 46, bottom - _LOG_TALL / 2, y_label, anchor="middle", turn=True))
        parts += [part for curve in plot.curves for part in _curve(curve, x, y)]
        parts += _names(plot.curves, x, y)
    rows, columns = (len(plots), 1) if narrow else (1, len(plots))
    end = start + _LOG_TALL + 52 + (rows - 1) * down
    last = paragraph(end + 12, foot, kind="soft", narrow=narrow) if foot else []
    width = NARROW if narrow else 22 + columns * across
    return document(width, end + (3 + LINE * len(last) if last else 0), title, parts + last)


def curve_chart(
    title: str,
    plots: Sequence[Plot],
    *,
    x_label: str,
    y_label: str,
    x_ticks: Ticks = (),
    foot: str = "",
    narrow: bool = False,
) -> str:
    """Plots over linear axes, four per row, with one key; `x_ticks` replaces numbers by words.

    A narrow chart, for phones, has one plot per row.
    """
    points = [p for plot in plots for curve in plot.curves for p in curve.points]
    assert points, "a chart needs points"
    bands = [b for plot in plots for curve in plot.curves for b in curve.band]
    x_range = _range([x for x, _ in (*points, *x_ticks)])
    y_range = _range([y for _, y in points] + [y for _, *edges in bands for y in edges])
    columns = 1 if narrow else min(_PER_ROW, len(plots))
    rows = -(-len(plots) // columns)
    wide = NARROW - _LEFT - _GAP - 6 if narrow else _WIDTHS.get(len(plots), _WIDTH)
    width = float(_LEFT + columns * (wide + _GAP) + 6)
    if not narrow:
        width = max(width, 8.2 * len(title) + 24, 6.4 * len(foot))
    heading = paragraph(24, title, kind="title", narrow=narrow)
    above = LINE * (len(heading) - 1)
    key, lines = _key(plots, width, above)
    start = _TOP + above + LINE * (lines - 1)
    parts = [*heading, *key]
    step = _TALL + _BOTTOM + 26
    for index, plot in enumerate(plots):
        first = index % columns == 0
        left = _LEFT + (index % columns) * (wide + _GAP)
        top = start + (index // columns) * step
        x = Axis(*x_range, left, left + wide, log=False)
        y = Axis(*y_range, top + _TALL, top, log=False)
        ticks = x_ticks or [(v, f"{v:g}") for v in x.ticks() if v == int(v)]
        parts += _frame(plot.title, x, y, x_label, ticks, numbers=first)
        parts += [part for curve in plot.curves for part in _curve(curve, x, y)]
        if first:
            parts.append(text(left - 44, top + _TALL / 2, y_label, anchor="middle", turn=True))
    height = start + rows * step - 20
    last = paragraph(height + 10, foot, kind="soft", narrow=narrow) if foot else []
    return document(width, height + LINE * len(last), title, parts + last)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """A little more than the values need, and never nothing."""
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or max(0.5, 0.02 * abs(high))
    return low - room if low < 0 or low > room else 0.0 - 0.3 * room, high + room


def _round_below(value: float) -> float:
    """The next of 1, 2, 5, 10, ... below a value."""
    scale = 10.0 ** math.floor(math.log10(value))
    return max(s * scale for s in (0.5, 1, 2, 5) if s * scale <= value * 0.95)


def _key(plots: Sequence[Plot], width: float, above: float) -> tuple[list[str], int]:
    """Every name once, and the number of lines that they take."""
    colours = {curve.name: curve.colour for plot in plots for curve in plot.curves}
    parts, at, lines = [], 14.0, 1
    for name, colour in colours.items():
        wide = 52 + 7.4 * len(name)
        if at > 14 and at + wide > width:
            at, lines = 14.0, lines + 1
        y = 45 + above + LINE * (lines - 1)
        parts.append(path([(at, y), (at + 24, y)], colour, DASHES[colour]))
        parts.append(marker(at + 12, y, colour))
        parts.append(text(at + 31, y + 4, name, colour=colour))
        at += wide
    return parts, lines


def _frame(
    title: str, x: Axis, y: Axis, x_label: str, x_ticks: Ticks, *, numbers: bool = True
) -> list[str]:
    parts = [text(x.start, y.end - 8, title)] if title else []
    for value in y.ticks():
        parts.append(line(x.start, y(value), x.end, y(value)))
        if numbers:
            parts.append(text(x.start - 7, y(value) + 4, f"{value:g}", anchor="end", kind="soft"))
    for value, words in x_ticks:
        parts.append(line(x(value), y.start, x(value), y.start + 4))
        parts.append(text(x(value), y.start + 18, words, anchor="middle", kind="soft"))
    parts.append(text((x.start + x.end) / 2, y.start + 36, x_label, anchor="middle", kind="soft"))
    return parts


def _curve(curve: Curve, x: Axis, y: Axis) -> list[str]:
    parts = []
    if curve.band:
        there = [f"{x(a):.1f},{y(high):.1f}" for a, _, high in curve.band]
        back = [f"{x(a):.1f},{y(low):.1f}" for a, low, _ in reversed(curve.band)]
        style = f"fill:var(--{curve.colour});opacity:.16"
        parts.append(f'<polygon points="{" ".join(there + back)}" style="{style}"/>')
    placed = [(x(a), y(b)) for a, b in curve.points]
    parts.append(path(placed, curve.colour, DASHES[curve.colour]))
    few = len(placed) <= 16
    for (px, py), (_, value) in zip(placed, curve.points, strict=True):
        if few or (px, py) == placed[-1]:
            parts.append(marker(px, py, curve.colour, says=f"{curve.name}: {value:.4g}"))
    return parts


def _names(curves: Sequence[Curve], x: Axis, y: Axis) -> list[str]:
    """Names in one column at the right, as near to the ends of their lines as they can be."""
    ends = [(x(a), y(b)) for a, b in (curve.points[-1] for curve in curves)]
    parts = []
    for curve, (px, py), at in zip(curves, ends, spread_out([e[1] for e in ends], 34), strict=True):
        if x.end + 8 - px > 12:
            style = f"stroke:var(--{curve.colour});stroke-width:1;stroke-dasharray:1 3;opacity:.7"
            parts.append(line(px + 6, py, x.end + 8, at, kind="", style=style))
        parts.append(text(x.end + 12, at + 1, curve.name, colour=curve.colour))
        parts.append(text(x.end + 12, at + 15, curve.note, kind="soft"))
    return parts
