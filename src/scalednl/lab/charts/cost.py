"""Charts of benchmark records, drawn here alone: for `scalednl bench` and for the report."""

from collections.abc import Callable
from typing import Any

from scalednl.lab.charts.dots import Dot, Row, dot_chart
from scalednl.lab.charts.lines import Curve, Plot, log_chart
from scalednl.lab.records.bench import (
    FITTED_SIZES,
    BenchRecord,
    BlocksRecord,
    Mode,
    OrdersRecord,
    OrdersRow,
    ScalingRecord,
    Table3Record,
    Table3Row,
)
from scalednl.lab.records.methods import MAIN_METHODS, METHODS

OURS = "auto"
"""The method whose floor is drawn as a line"""


def draw(record: BenchRecord, *, narrow: bool = False) -> str:
    """The chart of a record of any kind; a narrow one is for phones."""
    return _CHARTS[record.KIND](record, narrow)


def table3_chart(record: Table3Record, narrow: bool = False) -> str:
    """Ratios to the network without blocks; the paper's are hollow."""
    plain = record.rows[0].train_step.median_ms
    rows = [Row(row.name, _colour(row.method), _table3_dots(row, plain)) for row in record.rows]
    blocks, batch = record.settings.blocks, record.settings.batch
    return dot_chart(
        f"PreResNet-56 with {blocks} non-local blocks, as multiples of the network without",
        ["time of a training step", "bytes kept for backward", "peak memory"],
        rows,
        start=1,
        foot=f"Filled: measured, with quartiles ({record.where}, batch {batch}). "
        "Hollow: the paper, where it prints one.",
        narrow=narrow,
    )


def _table3_dots(row: Table3Row, plain: float) -> list[list[Dot]]:
    low, high = (value / plain for value in row.train_step.quartiles_ms)
    return [
        [_ratio(row.train_step_ratio, low, high), *_printed(row.paper_train_step_ratio)],
        [_ratio(row.bytes_kept_ratio)],
        [_ratio(row.peak_memory_ratio), *_printed(row.paper_memory_ratio)],
    ]


def _ratio(value: float, low: float | None = None, high: float | None = None) -> Dot:
    return Dot(value, f"x{value:.2f}", low, high)


def _printed(value: float | None) -> list[Dot]:
    return [] if value is None else [Dot(value, f"paper x{value:.2f}", hollow=True)]


def scaling_chart(record: ScalingRecord, narrow: bool = False) -> str:
    """Time over pixels in both modes, with the fitted exponents."""
    sides = sorted({point.height for point in record.by_side})
    modes = dict.fromkeys(point.mode for point in record.by_side)
    return log_chart(
        f"Time of one non-local block, {record.by_side[0].channels} channels, "
        f"{record.settings.heads} heads",
        [Plot(mode, _curves(record, mode)) for mode in modes],
        x_label=f"pixels N (exponents: of the {FITTED_SIZES} largest sizes)",
        y_label="milliseconds",
        x_ticks=[(float(side * side), f"{side}²") for side in sides],
        foot=f"{record.where}, median of {record.settings.repeats}. "
        "Lines end where a step would take too long or not fit in memory.",
        narrow=narrow,
    )


def _curves(record: ScalingRecord, mode: Mode) -> list[Curve]:
    powers = {(e.method, e.mode): e.pixels_to_the_power for e in record.exponents}
    curves = []
    for name in MAIN_METHODS:
        points = [(float(pixels), time.median_ms) for pixels, time in record.timed(name, mode)]
        power = powers.get((name, mode))
        grows = "" if power is None else f"grows as N^{power:.2f}"
        if points:
            curves.append(Curve(METHODS[name].label, _colour(name), points, note=grows))
    floor = sorted(
        (float(p.pixels), p.floor.milliseconds)
        for p in record.by_side
        if (p.method, p.mode) == (OURS, mode) and p.floor is not None
    )
    if floor:
        curves.append(Curve(f"floor of {OURS}", "grey", floor, note="the limit here"))
    return curves


def orders_chart(record: OrdersRecord, narrow: bool = False) -> str:
    """Time and bytes of every method over the associative order, map by map."""
    rows: list[Row] = []
    for place in dict.fromkeys(row.place for row in record.rows):
        rows.append(Row(place))
        for row in (row for row in record.rows if row.place == place):
            time = [_ratio(row.time_over_associative), *_floor(row)]
            kept = [_ratio(row.bytes_kept_over_associative)]
            rows.append(Row(row.method, _colour(row.method), [time, kept]))
    hollow = "" if record.limit is None else " (hollow: the machine's limit)"
    return dot_chart(
        "One block, forward and backward, as multiples of the associative order",
        [f"time{hollow}", "bytes kept for backward"],
        rows,
        log=True,
        reference=1.0,
        foot=f"{record.where}, median of {record.settings.repeats}. Both axes are logarithmic.",
        narrow=narrow,
    )


def _floor(row: OrdersRow) -> list[Dot]:
    """The least time in which this machine could compute the method."""
    if row.floor is None:
        return []
    value = row.time_over_associative * row.floor.share
    return [Dot(value, f"floor x{value:.2f}", hollow=True)]


def blocks_chart(record: BlocksRecord, narrow: bool = False) -> str:
    """Time and bytes of the demo's blocks."""
    rows = [
        Row(
            row.method,
            _colour(row.method),
            [
                [Dot(row.milliseconds, f"{three_digits(row.milliseconds)} ms")],
                [Dot(row.bytes_kept / 1e6, f"{three_digits(row.bytes_kept / 1e6)} MB")],
            ],
        )
        for row in record.rows
    ]
    return dot_chart(
        record.settings.words,
        ["time, milliseconds", "kept for backward, megabytes"],
        rows,
        log=True,
        foot="Both axes are logarithmic. All scaled rows compute the same, checked before timing.",
        narrow=narrow,
    )


def _colour(method: str) -> str:
    """The colour of a method, by its name or its label."""
    known = METHODS.get(method.removeprefix("scaled "))
    return "grey" if known is None else known.colour


def three_digits(value: float) -> str:
    """Three digits, and never a power of ten."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


_CHARTS: dict[str, Callable[[Any, bool], str]] = {
    Table3Record.KIND: table3_chart,
    ScalingRecord.KIND: scaling_chart,
    OrdersRecord.KIND: orders_chart,
    BlocksRecord.KIND: blocks_chart,
}
