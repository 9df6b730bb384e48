"""How the cost of one block grows with pixels and channels, and how large a map may be."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import linear_regression
from typing import get_args

from scalednl.lab.bench.blocks import block_step, block_work, checked_error, features, make_block
from scalednl.lab.bench.budget import largest_maps
from scalednl.lab.bench.measure import timings
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.session import Session
from scalednl.lab.bench.tiles import tiled_pass
from scalednl.lab.charts.cost import scaling_chart
from scalednl.lab.console import duration, print_table, short_bytes
from scalednl.lab.records.bench import (
    FITTED_SIZES,
    Exponent,
    LargestMap,
    Mode,
    ScalingPoint,
    ScalingRecord,
    ScalingSettings,
    TiledPass,
)
from scalednl.lab.records.floor import Work
from scalednl.lab.records.methods import MAIN_METHODS

CHANNELS, SIDE = 64, 32
SIDES = (8, 16, 32, 64, 128, 256, 512)
WIDTHS = (32, 64, 128, 256, 512)
MODES: tuple[Mode, ...] = get_args(Mode)
LARGEST_HEAD = ["method", "largest map", "pixels", "peak", "one step", ""]


@dataclass(frozen=True)
class Limits:
    """What a single step may take."""

    bytes: int
    seconds: float


def run(options: BenchOptions, budget: int) -> ScalingRecord:
    """Measure, print, and keep."""
    session = Session("scaling", options)
    limits = Limits(budget, 3.0 if options.quick else 8.0)
    repeats = options.runs(usual=7)
    sides = SIDES[:6] if options.quick else SIDES
    widths = WIDTHS[::2] if options.quick else WIDTHS
    by_side = _sweep(session, [(CHANNELS, side) for side in sides], limits, repeats)
    by_channels = _sweep(session, [(width, SIDE) for width in widths], limits, repeats)
    with session.step(f"the largest map within {short_bytes(budget)}"):
        largest = largest_maps(budget, 10.0 if options.quick else 60.0, CHANNELS, session.device)
    with session.step("one large map in tiles"):
        tiles = tiled_pass(512 if options.quick else 2048)
    record = ScalingRecord(
        **session.header(),
        settings=ScalingSettings(batch=1, heads=4, repeats=repeats, budget_bytes=budget),
        by_side=tuple(by_side),
        by_channels=tuple(by_channels),
        largest=tuple(largest),
        tiles=tiles,
    )
    exponents = (_exponent(record, method, mode) for method in MAIN_METHODS for mode in MODES)
    record = replace(record, exponents=tuple(exponents))
    _print(record, tiles)
    session.finish(record, {"scaling": scaling_chart(record)})
    return record


def _sweep(
    session: Session, shapes: Iterable[tuple[int, int]], limits: Limits, repeats: int
) -> list[ScalingPoint]:
    """Every method at every shape in both modes, until one would cost more than the limits."""
    found: list[ScalingPoint] = []
    for channels, side in shapes:
        with session.step(f"{channels} channels, {side}x{side}"):
            for mode in MODES:
                found += _points(session, found, mode, (channels, side), limits, repeats)
    return found


def _points(
    session: Session,
    found: Sequence[ScalingPoint],
    mode: Mode,
    shape: tuple[int, int],
    limits: Limits,
    repeats: int,
) -> list[ScalingPoint]:
    """Every method at one shape in one mode; those that cost too much are left out."""
    (channels, side), device = shape, session.device
    reasons = {m: _too_much(found, m, mode, channels, side, limits) for m in MAIN_METHODS}
    timed = [method for method, reason in reasons.items() if not reason]
    errors = {method: _error(method, channels, side, device) for method in timed}
    steps = {m: block_step(m, channels, side, mode != "forward", device) for m in timed}
    times = timings(steps, repeats, warm_up=2, device=device)
    floors = {
        m: session.limit.floor(_work(m, channels, side, mode), time) for m, time in times.items()
    }
    return [
        ScalingPoint(
            *(m, mode, channels, side, side, errors.get(m), times.get(m), reason),
            floor=floors.get(m),
        )
        for m, reason in reasons.items()
    ]


def _work(method: str, channels: int, side: int, mode: Mode) -> Work:
    block = make_block(method, channels).train(mode != "forward")
    return block_work(block, (1, channels, side, side))


@cache
def _error(method: str, channels: int, side: int, device: str) -> float:
    block = make_block(method, channels, device)
    x, _ = features(1, channels, side, device)
    return checked_error(block, x, f"{method} at {side}x{side}, {channels} channels")


def _too_much(
    found: Sequence[ScalingPoint], method: str, mode: Mode, channels: int, side: int, limits: Limits
) -> str:
    """Why a step is left out, judged by its map's bytes and by the size before; "" if it is not."""
    plan = make_block(method, channels).plan((1, channels, side, side), training=True)
    if plan.bytes_kept > limits.bytes / 3:
        return f"over {short_bytes(limits.bytes)}"
    before = [point for point in found if (point.method, point.mode) == (method, mode)]
    if not before or before[-1].time is None:
        return before[-1].left_out if before else ""
    last, time = before[-1], before[-1].time
    grown = (side * side / last.pixels) ** (2 if "softmax" in method else 1)
    grown *= channels / last.channels
    too_long = time.median_ms * grown > 1e3 * limits.seconds
    return f"over {limits.seconds:g} s" if too_long else ""


def _exponent(record: ScalingRecord, method: str, mode: Mode) -> Exponent:
    """The slope of log time over log pixels at the largest sizes."""
    chosen = record.timed(method, mode)[-FITTED_SIZES:]
    if len(chosen) < 2:
        return Exponent(method, mode, None)
    logs = [(math.log(pixels), math.log(time.median_ms)) for pixels, time in chosen]
    return Exponent(method, mode, round(linear_regression(*zip(*logs, strict=True)).slope, 3))


def _print(record: ScalingRecord, tiles: TiledPass) -> None:
    repeats, budget = record.settings.repeats, short_bytes(record.settings.budget_bytes)
    print(f"One block, 4 heads, batch 1, channels_last: median (quartiles) of {repeats}, ms;\n")
    _print_points("side", record.by_side, [f"{p.height}x{p.width}" for p in record.by_side])
    print(f"{CHANNELS} channels; time grows as pixels to the power ({FITTED_SIZES} largest sizes):")
    for mode in MODES:
        powers = [(e.method, e.pixels_to_the_power) for e in record.exponents if e.mode == mode]
        print(f"  {mode}: " + ", ".join(f"{m} {p:.2f}" for m, p in powers if p is not None))
    print()
    _print_shares(record.by_side)
    _print_points("channels", record.by_channels, [str(p.channels) for p in record.by_channels])
    print(f"{SIDE}x{SIDE} pixels.\n\nThe largest map whose training step stays within {budget}:\n")
    print_table(LARGEST_HEAD, [_largest_cells(one) for one in record.largest])
    print(
        f"In {tiles.tiles} tiles through Moments, {tiles.side}x{tiles.side} pixels attend to one "
        f"another in {short_bytes(tiles.peak_bytes)};\none tile has "
        f"{short_bytes(tiles.tile_bytes)}; the error against all pixels at once is "
        f"{tiles.error:.0e}.\n"
    )


def _print_points(varied: str, points: Sequence[ScalingPoint], labels: Sequence[str]) -> None:
    """One line per method and mode, one column per size, and the largest error of the line."""
    rows = []
    for mode in MODES:
        for method in MAIN_METHODS:
            line = [p for p in points if (p.method, p.mode) == (method, mode)]
            cells = [p.left_out if p.time is None else str(p.time) for p in line]
            error = max(p.error for p in line if p.error is not None)
            rows.append([f"{method}, {mode}", *cells, f"{error:.0e}"])
    print_table([varied, *dict.fromkeys(labels), "error"], rows)


def _print_shares(points: Sequence[ScalingPoint]) -> None:
    """The share of its floor that each method reaches, by size."""
    rows = []
    for mode in MODES:
        for method in MAIN_METHODS:
            line = [p for p in points if (p.method, p.mode) == (method, mode)]
            cells = ["" if p.floor is None else str(p.floor) for p in line]
            rows.append([f"{method}, {mode}", *cells])
    print("Share of the floor, the least time that this machine needs for the method's work:\n")
    print_table(["side", *dict.fromkeys(f"{p.height}x{p.width}" for p in points)], rows)


def _largest_cells(one: LargestMap) -> list[str]:
    seconds = one.step_seconds
    return [
        one.method,
        f"{one.side}x{one.side}",
        f"{one.side**2:,}",
        short_bytes(one.peak_bytes),
        f"{seconds * 1e3:,.0f} ms" if seconds < 10 else duration(seconds),
        "measured" if one.measured else "extrapolated: a step takes too long to try",
    ]
