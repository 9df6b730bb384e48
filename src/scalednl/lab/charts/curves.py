"""Curves over linear axes: small plots side by side with one scale, and one key for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalednl.lab.charts.svg import DASHES, Axis, document, line, marker, path, text

_LEFT, _TOP, _TALL, _GAP, _BOTTOM = 58, 84, 190, 22, 48
_WIDTHS = {1: 520, 2: 330, 3: 250}
_WIDTH = 215
_A_ROW = 4
_LINE = 19


@dataclass(frozen=True)
class Curve:
    """A line with an optional band around it; few points are drawn as markers too."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()
    """x, low, high"""


@dataclass(frozen=True)
class Plot:
    """One small plot."""

    title: str
    curves: Sequence[Curve]


def curve_chart(
    title: str,
    plots: Sequence[Plot],
    *,
    x_label: str,
    y_label: str,
    x_ticks: Sequence[tuple[float, str]] = (),
    foot: str = "",
) -> str:
    """Plots with common axes, four a row; `x_ticks` names places where numbers would not do."""
    points = [p for plot in plots for curve in plot.curves for p in curve.points]
    assert points, "a chart needs points"
    bands = [b for plot in plots for curve in plot.curves for b in curve.band]
    lows = [y for _, y in points] + [low for _, low, _ in bands]
    highs = [y for _, y in points] + [high for _, _, high in bands]
    x_range = _range([x for x, _ in points])
    y_range = _range([*lows, *highs])
    rows = -(-len(plots) // _A_ROW)
    wide = _WIDTHS.get(len(plots), _WIDTH)
    columns = min(_A_ROW, len(plots))
    width = max(_LEFT + columns * (wide + _GAP) + 6, 8.2 * len(title) + 24, 6.4 * len(foot))
    key, lines = _key(plots, width)
    start = _TOP + _LINE * (lines - 1)
    parts = [text(12, 24, title, kind="title"), *key]
    step = _TALL + _BOTTOM + 26
    for index, plot in enumerate(plots):
        left = _LEFT + (index % _A_ROW) * (wide + _GAP)
        top = start + (index // _A_ROW) * step
        x = Axis(*x_range, left, left + wide, log=False)
        y = Axis(*y_range, top + _TALL, top, log=False)
        parts += _frame(plot.title, x, y, x_label, x_ticks, numbers=index % _A_ROW == 0)
        parts += [part for curve in plot.curves for part in _curve(curve, x, y)]
        if index % _A_ROW == 0:
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
    title: str,
    x: Axis,
    y: Axis,
    x_label: str,
    x_ticks: Sequence[tuple[float, str]],
    *,
    numbers: bool,
) -> list[str]:
    parts = [text(x.start, y.end - 8, title)] if title else []
    for value in y.ticks():
        parts.append(line(x.start, y(value), x.end, y(value)))
        if numbers:
            parts.append(text(x.start - 7, y(value) + 4, f"{value:g}", anchor="end", kind="soft"))
    whole = [(v, f"{v:g}") for v in x.ticks() if v == int(v)]
    for value, words in x_ticks or whole:
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
