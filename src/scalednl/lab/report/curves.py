"""Learning curves, drawn from the epochs of runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from scalednl.attentions import ATTENTIONS, paper_attentions
from scalednl.lab.charts import Curve, Plot, curve_chart
from scalednl.lab.config import Experiment
from scalednl.lab.paper.grids import Artefact
from scalednl.lab.recipes import PLAIN
from scalednl.lab.records.runs import Cells, RunRecord
from scalednl.lab.report.aggregate import describe_block, scales_of, told_apart
from scalednl.lab.report.formatting import data_words, network_words

CURVES = 8
"""In one plot"""
POINTS = 60
"""More epochs than this are thinned out"""
Place = tuple[str, str]
"""Data set and network"""


@dataclass(frozen=True)
class Figure:
    """A chart and its title."""

    title: str
    chart: str
    """SVG"""
    narrow: str
    """The same for phones"""


def attention_of(experiment: Experiment) -> str:
    """The kind of attention, which decides colour and order."""
    return experiment.block.attention if experiment.blocks else PLAIN


def colour_of(attention: str) -> str:
    """The colour of a kind of attention; of a row with more in its name, that of the first word."""
    kind = ATTENTIONS.get(attention.partition(" ")[0])
    if attention == PLAIN:
        return "grey"
    return "purple" if kind is None else kind.colour


def order_of(attention: str) -> int:
    """The place of a kind of attention beside others: none, the paper's, the other ones."""
    order = [PLAIN, *dict.fromkeys((*paper_attentions(), *ATTENTIONS))]
    return order.index(attention) if attention in order else len(order)


def error_figure(
    place: Place,
    plots: Sequence[Plot],
    x_label: str,
    *,
    scale: str = "",
    x_ticks: Sequence[tuple[float, str]] = (),
    foot: str = "",
) -> Figure:
    """A chart of test errors on one data set and network."""
    title = f"{data_words(place[0])}, {network_words(place[1])}"
    title += f", scale {scale}" if scale else ""
    wide, narrow = (
        curve_chart(
            *(title, plots),
            x_label=x_label,
            y_label="test error, %",
            x_ticks=x_ticks,
            foot=foot,
            narrow=is_narrow,
        )
        for is_narrow in (False, True)
    )
    return Figure(title, wide, narrow)


def learning_curves(artefact: Artefact, runs: Cells) -> Iterator[Figure]:
    """For each scale, data set and network one chart, with a plot per column."""
    for scale in scales_of(runs):
        places: dict[Place, dict[str, list[Curve]]] = {}
        for cell, experiment in artefact.trainings(scale):
            curve = _curve(experiment, runs.get(experiment.cell, ()))
            if curve is not None:
                plots = places.setdefault((experiment.data, experiment.model), {})
                # Where columns are kinds of attention, they share a plot.
                column = "" if cell.column.partition(" ")[0] in ATTENTIONS else cell.column
                plots.setdefault(column, []).append(curve)
        for place, plots in places.items():
            shown = [Plot(column, curves) for column, curves in plots.items()]
            yield error_figure(place, shown, "epoch", scale=scale.label)


def other_curves(groups: Mapping[Place, Sequence[Sequence[RunRecord]]]) -> Iterator[Figure]:
    """Charts of trainings outside the paper's tables, by data set and network."""
    for place, cells in groups.items():
        kinds: dict[str, list[Curve]] = {}
        trained = [(one, members) for members in cells if (one := members[0].experiment)]
        apart = told_apart([one for one, _ in trained], describe_block)
        for experiment, members in trained:
            words = [describe_block(experiment), apart[experiment.cell]]
            curve = _curve(experiment, members, name=", ".join(filter(None, words)))
            if curve is not None:
                kinds.setdefault(attention_of(experiment), []).append(curve)
        if kinds:
            # The kinds of attention take turns until the plot is full.
            turns = [curve for turn in zip_longest(*kinds.values()) for curve in turn if curve]
            drawn = {id(curve) for curve in turns[:CURVES]}
            ordered = [curve for kind in sorted(kinds, key=order_of) for curve in kinds[kind]]
            shown = [curve for curve in ordered if id(curve) in drawn]
            left = len(ordered) - len(shown)
            foot = f"{left} more trainings are not drawn; their numbers are below." if left else ""
            yield error_figure(place, [Plot("", shown)], "epoch", foot=foot)


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
    return Curve(name or attention, colour_of(attention), points, band if several else ())
