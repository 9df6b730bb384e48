"""Learning curves and Figure 2, drawn from the epochs of runs."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from scalednl.lab.charts import Curve, Plot, curve_chart
from scalednl.lab.config import Experiment
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.grids import Artefact
from scalednl.lab.paper.scales import SCALES, Scale
from scalednl.lab.records.runs import Cells, RunRecord
from scalednl.lab.report.aggregate import describe_block
from scalednl.lab.report.formatting import data_words, network_words

CURVES = 8
"""In one plot"""
POINTS = 60
"""More epochs than this are thinned out"""
COLOURS = {"plain": "grey", "softmax": "red", "scaled": "blue", "mean": "green"}


def attention_of(experiment: Experiment) -> str:
    """What tells its colour."""
    return experiment.block.attention if experiment.block.blocks else "plain"


def learning_curves(artefact: Artefact, runs: Cells) -> list[dict[str, str]]:
    """For each scale, data set and network one chart, a plot a column."""
    found = []
    for scale in reversed(SCALES.values()):
        places: dict[tuple[str, str], dict[str, list[Curve]]] = {}
        for cell, experiment in artefact.trainings(scale):
            curve = _curve(experiment, runs.get(experiment.cell, ()))
            if curve is not None:
                plots = places.setdefault((experiment.data, experiment.model), {})
                # Where columns are kinds of attention, they share a plot.
                column = "" if cell.column in COLOURS else cell.column
                plots.setdefault(column, []).append(curve)
        found += [_chart(scale, place, plots) for place, plots in places.items()]
    return found


def _chart(scale: Scale, place: tuple[str, str], plots: dict[str, list[Curve]]) -> dict[str, str]:
    title = f"{data_words(place[0])}, {network_words(place[1])}, scale {scale.name}"
    chart = curve_chart(
        title,
        [Plot(column, curves) for column, curves in plots.items()],
        x_label="epoch",
        y_label="test error, %",
    )
    return {"title": title, "chart": chart}


def other_curves(groups: dict[tuple[str, str], list[list[RunRecord]]]) -> list[dict[str, str]]:
    """Charts of trainings outside the paper's grid, by data set and network."""
    found = []
    for (data, network), cells in groups.items():
        curves = []
        for members in cells:
            experiment = members[0].experiment
            assert experiment is not None
            curve = _curve(experiment, members, name=describe_block(experiment))
            if curve is not None:
                curves.append(curve)
        curves.sort(key=lambda curve: list(COLOURS.values()).index(curve.colour))
        if curves:
            title = f"{data_words(data)}, {network_words(network)}"
            shown = _across_kinds(curves)
            left = len(curves) - len(shown)
            foot = (
                f"{left} more trainings are not drawn; their numbers stand below." if left else ""
            )
            plot = [Plot("", shown)]
            chart = curve_chart(title, plot, x_label="epoch", y_label="test error, %", foot=foot)
            found.append({"title": title, "chart": chart})
    return found


def _across_kinds(curves: list[Curve]) -> list[Curve]:
    """At most CURVES of them, the kinds of attention taking turns."""
    kinds: dict[str, list[Curve]] = {}
    for curve in curves:
        kinds.setdefault(curve.colour, []).append(curve)
    turns = [curve for turn in zip_longest(*kinds.values()) for curve in turn if curve is not None]
    chosen = turns[:CURVES]
    return [curve for curve in curves if curve in chosen]


def _curve(experiment: Experiment, members: Sequence[RunRecord], name: str = "") -> Curve | None:
    """The mean over the finished runs, or over all while none is, with their range as a band."""
    members = [run for run in members if run.counts] or members
    by_epoch: dict[int, list[float]] = {}
    for run in members:
        for epoch in run.epochs:
            if epoch.test_error_pct is not None:
                by_epoch.setdefault(epoch.epoch + 1, []).append(epoch.test_error_pct)
    if not by_epoch:
        return None
    epochs = sorted(by_epoch)
    stride = -(-len(epochs) // POINTS)
    kept = [e for i, e in enumerate(epochs) if i % stride == 0 or e == epochs[-1]]
    attention = attention_of(experiment)
    points = [(float(e), sum(by_epoch[e]) / len(by_epoch[e])) for e in kept]
    band = [(float(e), min(by_epoch[e]), max(by_epoch[e])) for e in kept]
    several = len(members) > 1
    return Curve(name or attention, COLOURS[attention], points, band if several else ())


def figure2(rows: dict[str, Any]) -> list[dict[str, str]]:
    """Error over embedding channels, from the rows of the grid; the band is one deviation."""
    columns = artefacts()["figure2_embedding_channels"].columns
    found = []
    for group in rows["groups"]:
        places: dict[tuple[str, str], list[Curve]] = {}
        for row in group["rows"]:
            points, band = [], []
            for at, column in enumerate(reversed(columns)):
                cell = row["cells"].get(column)
                last = cell and cell["ours"] and cell["ours"]["last"]
                if last:
                    points.append((float(at), last["mean"]))
                    spread = last["sd"] or 0.0
                    band.append((float(at), last["mean"] - spread, last["mean"] + spread))
            if points:
                curve = Curve(row["row"], COLOURS[row["row"]], points, band)
                places.setdefault((row["data"], row["network"]), []).append(curve)
        for (data, network), curves in places.items():
            title = f"{data_words(data)}, {network_words(network)}, scale {group['scale']}"
            chart = curve_chart(
                title,
                [Plot("", curves)],
                x_label="embedding channels",
                y_label="test error, %",
                x_ticks=[(float(i), name) for i, name in enumerate(reversed(columns))],
            )
            found.append({"title": title, "chart": chart})
    return found
