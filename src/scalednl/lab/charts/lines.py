"""Lines over common axes, in plots side by side: logarithmic or linear."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scalednl.lab.charts.svg import DASHES, Axis, document, line, marker, path, spread_out, text

_LEFT, _TOP, _BOTTOM, _GAP, _TALL, _LINE = 58, 84, 48, 22, 190, 19
_WIDTHS = {1: 520, 2: 330, 3: 250}
_WIDTH = 215
_PER_ROW = 4
_LOG_TOP, _LOG_LEFT, _LOG_WIDE, _LOG_TALL, _NAMES = 66, 62, 300, 300, 168


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
) -> str:
    """Plots over two logarithmic axes, each line named where it ends."""
    values = [y for plot in plots for curve in plot.curves for _, y in curve.points]
    assert values, "a chart needs points"
    parts = [text(12, 24, title, kind="title")]
    for index, plot in enumerate(plots):
        left = _LOG_LEFT + index * (_LOG_LEFT + _LOG_WIDE + _NAMES - 20)
        x = Axis(x_ticks[0][0], x_ticks[-1][0], left, left + _LOG_WIDE, log=True)
        bottom = _LOG_TOP + _LOG_TALL
        y = Axis(_round_below(min(values)), max(values) * 1.25, bottom, _LOG_TOP, log=True)
        parts += _frame(plot.title, x, y, x_label, x_ticks)
        parts.append(text(left - 46, bottom - _LOG_TALL / 2, y_label, anchor="middle", turn=True))
        parts += [part for curve in plot.curves for part in _curve(curve, x, y)]
        parts += _names(plot.curves, x, y)
    width = 2 + len(plots) * (_LOG_LEFT + _LOG_WIDE + _NAMES) - 20 * (len(plots) - 1)
    height = _LOG_TOP + _LOG_TALL + 52 + (22 if foot else 0)
    if foot:
        parts.append(text(12, height - 10, foot, kind="soft"))
    return document(width, height, title, parts)


def curve_chart(
    title: str,
    plots: Sequence[Plot],
    *,
    x_label: str,
    y_label: str,
    x_ticks: Ticks = (),
    foot: str = "",
) -> str:
    """Plots over linear axes, four per row, with one key; `x_ticks` replaces numbers by words."""
    points = [p for plot in plots for curve in plot.curves for p in curve.points]
    assert points, "a chart needs points"
    bands = [b for plot in plots for curve in plot.curves for b in curve.band]
    x_range = _range([x for x, _ in (*points, *x_ticks)])
    y_range = _range([y for _, y in points] + [y for _, *edges in bands for y in edges])
    rows = -(-len(plots) // _PER_ROW)
    wide = _WIDTHS.get(len(plots), _WIDTH)
    columns = min(_PER_ROW, len(plots))
    width = max(_LEFT + columns * (wide + _GAP) + 6, 8.2 * len(title) + 24, 6.4 * len(foot))
    key, lines = _key(plots, width)
    start = _TOP + _LINE * (lines - 1)
    parts = [text(12, 24, title, kind="title"), *key]
    step = _TALL + _BOTTOM + 26
    for index, plot in enumerate(plots):
        first = index % _PER_ROW == 0
        left = _LEFT + (index % _PER_ROW) * (wide + _GAP)
        top = start + (index // _PER_ROW) * step
        x = Axis(*x_range, left, left + wide, log=False)
        y = Axis(*y_range, top + _TALL, top, log=False)
        ticks = x_ticks or [(v, f"{v:g}") for v in x.ticks() if v == int(v)]
        parts += _frame(plot.title, x, y, x_label, ticks, numbers=first)
        parts += [part for curve in plot.curves for part in _curve(curve, x, y)]
        if first:
            parts.append(text(left - 44, top + _TALL / 2, y_label, anchor="middle", turn=True))
    height = start + rows * step - 20 + (18 if foot else 0)
    if foot:
        parts.append(text(12, height - 8, foot, kind="soft"))
    return document(width, height, title, parts)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """A little more than the values need, and never nothing."""
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or max(0.5, 0.02 * abs(high))
    return low - room if low < 0 or low > room else 0.0 - 0.3 * room, high + room


def _round_below(value: float) -> float:
    """The next of 1, 2, 5, 10, ... below a value."""
    scale = 10.0 ** math.floor(math.log10(value))
    return max(s * scale for s in (0.5, 1, 2, 5) if s * scale <= value * 0.95)


def _key(plots: Sequence[Plot], width: float) -> tuple[list[str], int]:
    """Every name once, and the number of lines that they take."""
    colours = {curve.name: curve.colour for plot in plots for curve in plot.curves}
    parts, at, lines = [], 14.0, 1
    for name, colour in colours.items():
        wide = 52 + 7.4 * len(name)
        if at > 14 and at + wide > width:
            at, lines = 14.0, lines + 1
        y = 45 + _LINE * (lines - 1)
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
