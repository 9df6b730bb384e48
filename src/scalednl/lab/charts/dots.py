"""Rows of dots: one row per thing, one plot per quantity, values written beside the dots."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scalednl.lab.charts.svg import LINE, NARROW, Axis, document, line, marker, paragraph, text

_TOP, _ROW, _PLOT, _GAP, _BOTTOM = 70, 23, 265, 56, 30
_NARROW_ROW, _NARROW_PLOT = 40, 236


@dataclass(frozen=True)
class Dot:
    """A value with its spread; hollow dots are for what somebody else reported."""

    value: float
    words: str
    low: float | None = None
    high: float | None = None
    hollow: bool = False
    colour: str = ""
    """Its own colour, where it is not that of its row"""


@dataclass(frozen=True)
class Row:
    """A name, its colour, and the dots of each column; a row without dots is a heading."""

    name: str
    colour: str = "grey"
    columns: Sequence[Sequence[Dot]] = ()


def dot_chart(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Row],
    *,
    log: bool = False,
    start: float | None = None,
    reference: float | None = None,
    names: float = 205,
    foot: str = "",
    narrow: bool = False,
) -> str:
    """Rows of dots over one axis per column.

    `start` is the left end of the axes, `reference` a value that is marked by a stronger line.
    A narrow chart, for phones, has the columns below each other, and names above their dots.
    """
    if narrow:
        axes = [_axis(_dots_of(rows, i), 26, log, start, _NARROW_PLOT) for i in range(len(columns))]
        return _narrow_chart(title, columns, rows, axes, reference, foot)
    height = _TOP + _ROW * len(rows) + _BOTTOM + (22 if foot else 0)
    width = 12 + names + len(columns) * (_PLOT + _GAP)
    parts = [text(12, 24, title, kind="title")]
    for index, row in enumerate(rows):
        heading = not row.columns
        at = _TOP + _ROW * index + 15
        parts.append(text(12 if heading else 26, at + 4, row.name, kind="" if heading else "soft"))
    for index, column in enumerate(columns):
        left = 12 + names + index * (_PLOT + _GAP)
        axis = _axis(_dots_of(rows, index), left, log, start)
        parts += _column(column, rows, index, axis, reference)
    if foot:
        parts.append(text(12, height - 10, foot, kind="soft"))
    return document(width, height, title, parts)


def _narrow_chart(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Row],
    axes: Sequence[Axis],
    reference: float | None,
    foot: str,
) -> str:
    parts = paragraph(24, title, kind="title", narrow=True)
    top = _TOP + LINE * (len(parts) - 1)
    for index, (column, axis) in enumerate(zip(columns, axes, strict=True)):
        for number, row in enumerate(rows):
            at = top + _NARROW_ROW * number + (11 if row.columns else 25)
            parts.append(text(26 if row.columns else 12, at, row.name, kind="soft"))
        parts += _column(column, rows, index, axis, reference, top, _NARROW_ROW, 26)
        top += _NARROW_ROW * len(rows) + _BOTTOM + 44
    last = paragraph(top - 28, foot, kind="soft", narrow=True) if foot else []
    return document(NARROW, top - 40 + LINE * len(last), title, parts + last)


def _dots_of(rows: Sequence[Row], column: int) -> list[Dot]:
    return [dot for row in rows if row.columns for dot in row.columns[column]]


def _axis(
    dots: Sequence[Dot], left: float, log: bool, start: float | None, wide: float = _PLOT
) -> Axis:
    assert dots, "a chart needs dots"
    low = min(d.value if d.low is None else d.low for d in dots)
    high = max(d.value if d.high is None else d.high for d in dots)
    if log:
        return Axis(low / 1.4, high * 1.4, left, left + wide, log=True)
    if start is not None:
        below = min(d.value for d in dots) < start
        low = math.floor(20 * low) / 20 if below else start
    high = max(low, high)
    room = max(0.08 * (high - low), 0.02 * low)
    return Axis(low, high + room, left, left + wide, log=False)


def _column(
    title: str,
    rows: Sequence[Row],
    index: int,
    axis: Axis,
    reference: float | None,
    top: float = _TOP,
    step: float = _ROW,
    at_dots: float = 15,
) -> list[str]:
    bottom = top + step * len(rows) + 6
    parts = [text(axis.start, top - 20, title)]
    for value in _ticks(axis):
        parts.append(line(axis(value), top - 6, axis(value), bottom))
        parts.append(text(axis(value), bottom + 15, f"{value:g}", anchor="middle", kind="soft"))
    if reference is not None:
        style = "stroke:currentColor;opacity:.6"
        at = axis(reference)
        parts.append(line(at, top - 6, at, bottom, kind="", style=style))
    for number, row in enumerate(rows):
        parts += _dots(row, index, axis, top + step * number + at_dots)
    return parts


def _dots(row: Row, index: int, axis: Axis, at: float) -> list[str]:
    """The dots of one row in one column, with their spreads and words."""
    parts = []
    dots = row.columns[index] if row.columns else ()
    for dot in dots:
        if dot.low is not None and dot.high is not None:
            style = f"stroke:var(--{dot.colour or row.colour});stroke-width:2;opacity:.55"
            parts.append(line(axis(dot.low), at, axis(dot.high), at, kind="", style=style))
    for dot in sorted(dots, key=lambda d: not d.hollow):
        colour = dot.colour or row.colour
        parts.append(marker(axis(dot.value), at, colour, hollow=dot.hollow, says=dot.words))
    return parts + _words(dots, axis, at, row.colour)


def _ticks(axis: Axis) -> list[float]:
    """Round values, and where a linear axis begins, unless that would crowd the first of them."""
    ticks = axis.ticks()
    if axis.log or (ticks and axis(ticks[0]) - axis.start < 24):
        return ticks
    return [axis.low, *ticks]


def _words(dots: Sequence[Dot], axis: Axis, at: float, colour: str) -> list[str]:
    """The first filled dot's words, right of the rightmost dot."""
    said = [dot for dot in dots if not dot.hollow]
    if not said:
        return []
    edge = max(axis(d.value if d.high is None else max(d.value, d.high)) for d in dots)
    return [text(edge + 9, at + 4, said[0].words, colour=said[0].colour or colour)]
