"""The figure and tables of docs/capacity.md, from the records."""

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from benchmarks.capacity_records import (
    FOLDER,
    HEADS,
    Attention,
    CapacityPlan,
    CapacityRun,
    Readout,
    expected_error_pct,
    read_plan,
    read_runs,
)
from scalednl.lab.charts import Curve, Plot, curve_chart
from scalednl.lab.console import counted
from scalednl.lab.report.formatting import spread_of
from scalednl.lab.report.markdown import markdown_table
from scalednl.lab.stats import summarise

FIGURE = "capacity.svg"
HELD_PCT = 5.0
"""Pairs count as held up to this error; chance is 50 %"""
NAMES: dict[Attention, str] = {
    "softmax": "softmax",
    "scaled": "scaled",
    "centred": "scaled, centred keys",
}
COLOURS: dict[Attention, str] = {"softmax": "red", "scaled": "green", "centred": "purple"}
EXPECTED = "linear attention, by theory"
READOUTS: dict[Readout, str] = {"linear": "linear classifier", "hidden": "hidden layer"}
Errors = dict[tuple[Readout, Attention, int, int], list[float]]
"""The errors of all seeds, by readout, attention, width and pairs"""


def capacity_section(folder: Path = FOLDER, link: str = f"../results/capacity/{FIGURE}") -> str:
    """The figure and the tables; a sentence as long as there is no record."""
    plan = read_plan(folder)
    runs, total = read_runs(folder, plan), len(list(plan.cells()))
    if not runs:
        return f"No run has finished yet (0 of {total})."
    errors = by_cell(runs)
    parts = [
        f"{len(runs)} of {total} runs.",
        f"![Error against the number of pairs, by head width]({link})",
        "Test error in percent, mean ± standard deviation over seeds:",
        error_table(plan, errors),
    ]
    return "\n\n".join(parts)


def held_section(folder: Path = FOLDER) -> str:
    """How many pairs each attention holds, by width."""
    plan = read_plan(folder)
    errors = by_cell(read_runs(folder, plan))
    words = (
        "Largest number of pairs per map with a mean error of at most "
        f"{HELD_PCT:g} %, one head of d channels:"
    )
    return f"{words}\n\n{held_table(plan, errors)}" if errors else "No run has finished yet."


def heads_section(folder: Path = FOLDER, more: Path = HEADS) -> str:
    """The same channels in one head and in several: scaled attention."""
    one = [run for run in read_runs(folder, read_plan(folder)) if run.cell.attention == "scaled"]
    plan = read_plan(more)
    runs = read_runs(more, plan)
    if not runs:
        return "No run has finished yet."
    found: dict[tuple[Readout, int, int, int], list[float]] = {}
    for run in (*one, *runs):
        cell = run.cell
        if cell.seed in plan.seeds:
            key = cell.readout, cell.width, cell.pairs, cell.heads
            found.setdefault(key, []).append(run.error_pct)
    counts = (1, *plan.heads)
    rows = []
    for readout, width, pairs in product(plan.readouts, plan.widths, plan.pairs):
        cells = [spread_of(found.get((readout, width, pairs, heads), [])) for heads in counts]
        theory = [
            f"{expected_error_pct(plan.task.keys, pairs, width, readout, heads):.1f}"
            for heads in counts
        ]
        rows.append([READOUTS[readout], str(width), str(pairs), *cells, ", ".join(theory)])
    names = [counted(heads, "head") for heads in counts]
    return markdown_table(["behind the block", "d", "K", *names, "by theory"], rows)


def capacity_figure(folder: Path = FOLDER) -> str | None:
    """A plot for every readout and width: error over pairs; None without records."""
    plan = read_plan(folder)
    errors = by_cell(read_runs(folder, plan))
    plots = [
        Plot(f"d = {width}, {READOUTS[readout]}", _curves(plan, errors, readout, width))
        for readout, width in product(plan.readouts, plan.widths)
    ]
    if not errors:
        return None
    return curve_chart(
        "Associative recall: error against the number of pairs K, by head width d",
        plots,
        x_label="pairs per map, K",
        y_label="test error, %",
        x_ticks=[(math.log2(pairs), str(pairs)) for pairs in plan.pairs],
        foot=f"Mean and standard deviation over up to {len(plan.seeds)} seeds; chance is 50 %.",
    )


def by_cell(runs: Sequence[CapacityRun]) -> Errors:
    """The errors of runs that differ only in their seeds, together."""
    found: Errors = {}
    for run in runs:
        cell = run.cell
        key = cell.readout, cell.attention, cell.width, cell.pairs
        found.setdefault(key, []).append(run.error_pct)
    return found


def _curves(plan: CapacityPlan, errors: Errors, readout: Readout, width: int) -> list[Curve]:
    found = []
    for attention in plan.attentions:
        points, band = [], []
        for pairs in plan.pairs:
            if values := errors.get((readout, attention, width, pairs)):
                one, x = summarise(values), math.log2(pairs)
                spread = one.sd or 0.0
                points.append((x, one.mean))
                band.append((x, max(0.0, one.mean - spread), one.mean + spread))
        if points:
            found.append(Curve(NAMES[attention], COLOURS[attention], points, band))
    theory = [
        (math.log2(pairs), expected_error_pct(plan.task.keys, pairs, width, readout))
        for pairs in plan.pairs
    ]
    # First, so that what was measured is drawn over it.
    return [Curve(EXPECTED, "grey", theory), *found]


def held_table(plan: CapacityPlan, errors: Errors) -> str:
    """How many pairs each attention holds, by width."""
    rows = [
        [
            NAMES[attention],
            READOUTS[readout],
            *(_held(plan, errors, readout, attention, width) for width in plan.widths),
        ]
        for readout, attention in product(plan.readouts, plan.attentions)
    ]
    widths = [f"d = {width}" for width in plan.widths]
    return markdown_table(["attention", "behind the block", *widths], rows)


def _held(
    plan: CapacityPlan, errors: Errors, readout: Readout, attention: Attention, width: int
) -> str:
    """The largest K up to which every mean is low enough; empty while one is missing."""
    held = 0
    for pairs in plan.pairs:
        values = errors.get((readout, attention, width, pairs))
        if values is None:
            return ""
        if summarise(values).mean > HELD_PCT:
            return str(held) if held else f"fewer than {pairs}"
        held = pairs
    return f"{held} or more"


def error_table(plan: CapacityPlan, errors: Errors) -> str:
    """Every cell of the plan that has runs, beside what theory expects."""
    rows = []
    for readout, width, pairs in product(plan.readouts, plan.widths, plan.pairs):
        cells = [
            spread_of(errors.get((readout, attention, width, pairs), []))
            for attention in plan.attentions
        ]
        if any(cells):
            expected = expected_error_pct(plan.task.keys, pairs, width, readout)
            rows.append([READOUTS[readout], str(width), str(pairs), *cells, f"{expected:.1f}"])
    names = [NAMES[attention] for attention in plan.attentions]
    return markdown_table(["behind the block", "d", "K", *names, EXPECTED], rows)
