"""How the cost of one block grows with pixels and channels, and how large a map may be."""

import math
from dataclasses import dataclass
from statistics import linear_regression
from typing import Any

from scalednl.lab.bench.budget import Largest, largest_maps
from scalednl.lab.bench.measure import timings
from scalednl.lab.bench.options import BenchOptions, short_bytes
from scalednl.lab.bench.session import Session
from scalednl.lab.bench.shapes import (
    COLOURS,
    METHODS,
    block_step,
    checked_error,
    features,
    make_block,
)
from scalednl.lab.bench.tiles import tiled_pass
from scalednl.lab.bench.timing import Timing
from scalednl.lab.charts import Panel, Series, line_chart
from scalednl.lab.console import print_table

CHANNELS, SIDE = 64, 32
SIDES = (8, 16, 32, 64, 128, 256, 512)
WIDTHS = (32, 64, 128, 256, 512)
MODES = {"forward": False, "forward + backward": True}


@dataclass(frozen=True)
class Point:
    """One method on one map in one mode; where `time` is None, `left_out` says why."""

    method: str
    mode: str
    channels: int
    side: int
    time: Timing | None
    error: float | None = None
    left_out: str = ""


@dataclass(frozen=True)
class Limits:
    """What a single step may take."""

    bytes: int
    seconds: float


def run(options: BenchOptions, budget: int) -> None:
    """Measure, print, and keep."""
    session = Session("scaling", options)
    sides = SIDES[:6] if options.quick else SIDES
    widths = WIDTHS[::2] if options.quick else WIDTHS
    limits = Limits(budget, 3.0 if options.quick else 8.0)
    repeats = options.runs(usual=7)
    by_side = _sweep(session, [(CHANNELS, side) for side in sides], limits, repeats)
    by_width = _sweep(session, [(width, SIDE) for width in widths], limits, repeats)
    with session.step(f"the largest map within {short_bytes(budget)}"):
        largest = largest_maps(budget, 10.0 if options.quick else 60.0, CHANNELS, session.device)
    with session.step("one large map in tiles"):
        tiled = tiled_pass(512 if options.quick else 2048)
    print(f"One block, 4 heads, batch 1, channels_last: median (quartiles) of {repeats}, ms;\n")
    _print(by_side, "side", [f"{side}x{side}" for side in sides])
    exponents = {(m, mode): _exponent(by_side, m, mode) for m in METHODS for mode in MODES}
    print(f"{CHANNELS} channels; time grows as pixels to the power (last three sizes):")
    for mode in MODES:
        print(f"  {mode}: " + ", ".join(f"{m} {exponents[m, mode]:.2f}" for m in METHODS))
    print()
    _print(by_width, "channels", [str(width) for width in widths])
    print(f"{SIDE}x{SIDE} pixels.\n")
    print(f"The largest map whose training step stays within {short_bytes(budget)}:\n")
    print_table(Largest.head(), [one.row() for one in largest])
    print(tiled, "\n")
    result = {
        "settings": {"batch": 1, "heads": 4, "repeats": repeats, "budget_bytes": budget},
        "by_side": [_record(point) for point in by_side],
        "by_channels": [_record(point) for point in by_width],
        "exponents": [
            {"method": m, "mode": mode, "pixels_to_the_power": round(value, 3)}
            for (m, mode), value in exponents.items()
        ],
        "largest": [one.as_dict() for one in largest],
        "tiles": tiled.as_dict(),
    }
    where = f"{session.origin.machine}, {session.origin.threads} threads, median of {repeats}"
    session.finish(result, {"scaling": _chart(by_side, exponents, sides, where)})


def _sweep(
    session: Session, shapes: list[tuple[int, int]], limits: Limits, repeats: int
) -> list[Point]:
    """Every method at every shape in both modes, until one would cost more than the limits."""
    found: list[Point] = []
    for channels, side in shapes:
        with session.step(f"{channels} channels, {side}x{side}"):
            errors: dict[str, float] = {}
            for mode, training in MODES.items():
                reasons = {
                    method: _too_much(found, method, mode, channels, side, limits)
                    for method in METHODS
                }
                steps = {}
                for method in (m for m, reason in reasons.items() if not reason):
                    if method not in errors:
                        errors[method] = _error(method, channels, side, session.device)
                    steps[method] = block_step(method, channels, side, training, session.device)
                times = timings(steps, repeats, warm_up=2, device=session.device)
                found += [
                    Point(m, mode, channels, side, times.get(m), errors.get(m), reason)
                    for m, reason in reasons.items()
                ]
    return found


def _error(method: str, channels: int, side: int, device: str) -> float:
    block = make_block(method, channels, device)
    x, _ = features(1, channels, side, device)
    return checked_error(block, x, f"{method} at {side}x{side}, {channels} channels")


def _too_much(
    found: list[Point], method: str, mode: str, channels: int, side: int, limits: Limits
) -> str:
    """Why a step is left out, judged by its map's bytes and by the size before; "" if it is not."""
    block, pixels = make_block(method, channels), side * side
    plan = block.plan((1, channels, side, side), training=True)
    if plan.bytes_kept > limits.bytes / 3:
        return f"over {short_bytes(limits.bytes)}"
    before = [p for p in found if (p.method, p.mode) == (method, mode)]
    if before and before[-1].left_out:
        return before[-1].left_out
    if before and before[-1].time is not None:
        last = before[-1]
        assert last.time is not None
        grown = (pixels / last.side**2) ** (2 if "softmax" in method else 1)
        grown *= channels / last.channels
        if last.time.median * grown > limits.seconds:
            return f"over {limits.seconds:g} s"
    return ""


def _exponent(points: list[Point], method: str, mode: str) -> float:
    """The slope of log time over log pixels at the three largest sizes."""
    chosen = [
        (math.log(p.side**2), math.log(p.time.median))
        for p in points
        if (p.method, p.mode) == (method, mode) and p.time is not None
    ][-3:]
    return linear_regression(*zip(*chosen, strict=True)).slope if len(chosen) > 1 else math.nan


def _print(points: list[Point], varied: str, labels: list[str]) -> None:
    """One line a method and mode, one column a size, and the largest error of the line."""
    rows = []
    for mode in MODES:
        for method in METHODS:
            line = [p for p in points if (p.method, p.mode) == (method, mode)]
            cells = [p.left_out if p.time is None else str(p.time) for p in line]
            error = max(p.error for p in line if p.error is not None)
            rows.append([f"{method}, {mode}", *cells, f"{error:.0e}"])
    print_table([varied, *labels, "error"], rows)


def _record(point: Point) -> dict[str, Any]:
    shape = {"channels": point.channels, "height": point.side, "width": point.side}
    record = {"method": point.method, "mode": point.mode, **shape}
    if point.time is None:
        return {**record, "left_out": point.left_out}
    return {**record, "error": point.error, "time": point.time.as_dict()}


def _chart(
    points: list[Point], exponents: dict[tuple[str, str], float], sides: tuple[int, ...], where: str
) -> str:
    panels = []
    for mode in MODES:
        series = []
        for method in METHODS:
            line = [
                (float(p.side**2), p.time.median * 1e3)
                for p in points
                if (p.method, p.mode) == (method, mode) and p.time is not None
            ]
            name = f"scaled, {method}" if "softmax" not in method else method
            grows = f"grows as N^{exponents[method, mode]:.2f}"
            series.append(Series(name, COLOURS[method], line, grows))
        panels.append(Panel(mode, series))
    return line_chart(
        f"Time of one non-local block, {CHANNELS} channels, 4 heads",
        panels,
        x_label="pixels N",
        y_label="milliseconds",
        x_ticks=[(float(side**2), f"{side}²") for side in sides],
        foot=f"{where}. Lines end where a step would take too long or not fit in memory.",
    )
