"""Means with their intervals, one per row, beside the margin of a difference that matters."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from scalednl.lab.charts.svg import (
    LETTER,
    LINE,
    NARROW,
    Axis,
    document,
    line,
    marker,
    paragraph,
    text,
)

_TOP, _BOTTOM, _GAP = 52.0, 26.0, 12.0
_LEFT, _NAMES, _PLOT, _WORDS = 12.0, 420.0, 290.0, 170.0


@dataclass(frozen=True)
class Interval:
    """A mean, its interval, and the margin of its row."""

    name: str
    value: float
    low: float
    high: float
    margin: float
    words: str
    colour: str = "grey"
    hollow: bool = False


Group = tuple[str, Sequence[Interval]]
"""A heading and its rows"""


def interval_chart(
    title: str, groups: Sequence[Group], *, limit: float, foot: str = "", narrow: bool = False
) -> str:
    """Groups of rows over one axis, which ends at ±`limit` at most; arrows point beyond it.

    A narrow chart, for phones, has names and words above their intervals.
    """
    width = NARROW if narrow else _LEFT + _NAMES + _PLOT + _WORDS
    axis = _axis([one for _, rows in groups for one in rows], limit, narrow)
    heading = paragraph(24, title, kind="title", width=width)
    y = start = _TOP + LINE * (len(heading) - 1)
    parts = []
    for name, rows in groups:
        words = paragraph(y + LINE - 5, name, width=width)
        parts += words
        y += LINE * len(words) + _GAP / 2
        for row in rows:
            drawn, y = _row(row, axis, y, narrow)
            parts += drawn
    # In a narrow chart the grid would cross the words: each row has its own piece of it.
    grid = [] if narrow else _grid(axis, start - 6, y)
    last = paragraph(y + _BOTTOM + LINE, foot, kind="soft", width=width) if foot else []
    height = y + _BOTTOM + LINE * len(last) + (8 if foot else 0)
    return document(width, height, title, [*heading, *grid, *parts, *_numbers(axis, y), *last])


def _axis(rows: Sequence[Interval], limit: float, narrow: bool) -> Axis:
    low = max(-limit, min(min(row.low, -row.margin) for row in rows))
    high = min(limit, max(max(row.high, row.margin) for row in rows))
    room = 0.04 * (high - low)
    start, wide = (_LEFT + 10, NARROW - 44) if narrow else (_LEFT + _NAMES, _PLOT)
    return Axis(low - room, high + room, start, start + wide, log=False)


def _grid(axis: Axis, top: float, bottom: float) -> list[str]:
    strong = "stroke:currentColor;opacity:.6"
    return [
        line(axis(value), top, axis(value), bottom, style="" if value else strong)
        for value in axis.ticks()
    ]


def _numbers(axis: Axis, y: float) -> list[str]:
    return [
        text(axis(value), y + 15, f"{value:g}", anchor="middle", kind="soft")
        for value in axis.ticks()
    ]


def _row(row: Interval, axis: Axis, y: float, narrow: bool) -> tuple[list[str], float]:
    """The shapes of a row from height `y` on, and the height of the next."""
    letters = ((NARROW if narrow else _NAMES) - 2 * _LEFT) / LETTER
    names = textwrap.wrap(row.name, int(letters))
    parts = [
        text(_LEFT + 10, y + LINE * number + 13, part, kind="soft")
        for number, part in enumerate(names)
    ]
    below = y + LINE * len(names)
    if narrow:
        place, middle = (_LEFT + 10, below + 13), below + LINE + 10
        parts += _grid(axis, middle - 9, middle + 9)
        after = middle + 10 + _GAP
    else:
        middle = (y + below) / 2
        place, after = (axis.end + 14, middle + 4), below + _GAP
    words = text(*place, row.words, colour=row.colour)
    return [*parts, *_interval(row, axis, middle), words], after


def _interval(row: Interval, axis: Axis, y: float) -> list[str]:
    band = "stroke:currentColor;stroke-width:12;opacity:.1"
    style = f"stroke:var(--{row.colour});stroke-width:2;opacity:.6"
    ends = (-row.margin, row.margin), (row.low, row.high)
    (left, right), (low, high) = (tuple(axis(_within(axis, v)) for v in pair) for pair in ends)
    parts = [
        line(left, y, right, y, kind="", style=band),
        line(low, y, high, y, kind="", style=style),
    ]
    parts += [
        text(axis(_within(axis, end)), y + 4, sign, anchor="middle", colour=row.colour)
        for end, sign in ((row.low, "◂"), (row.high, "▸"))
        if end != _within(axis, end)
    ]
    if row.value == _within(axis, row.value):
        parts.append(marker(axis(row.value), y, row.colour, hollow=row.hollow, says=row.words))
    return parts


def _within(axis: Axis, value: float) -> float:
    return min(max(value, axis.low), axis.high)
