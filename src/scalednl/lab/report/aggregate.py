"""The runs of one training together: means, spread, differences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scalednl.config import BlockConfig
from scalednl.lab.config import Experiment
from scalednl.lab.config.experiment import PRECISIONS
from scalednl.lab.config.experiment_file import MOVED, dotted
from scalednl.lab.console import counted
from scalednl.lab.paper.grids import OwnAttention
from scalednl.lab.paper.scales import SCALES, Scale, scale_at
from scalednl.lab.records.runs import Cells, RunRecord
from scalednl.lab.stats import Contrast, Summary, contrast, paired, summarise
from scalednl.options import CONVOLUTIONS, Center, biased

SOFTMAX = "softmax"
"""The attention that others are compared with"""
MOST_OWN = 8
"""Attentions of users' own that stand in tables; runs of others are listed below them"""
CENTERS: dict[Center, str] = {"keys": "centred keys", "keys+mean": "centred keys plus the mean"}


@dataclass(frozen=True)
class CellOutcome:
    """The numbers of a training over its seeds."""

    n: int
    """Finished runs"""
    last: Summary | None
    best: Summary | None
    diverged: int
    unfinished: int
    difference: Contrast | None
    """From the same training with softmax blocks, over common seeds"""
    runs: tuple[str, ...]
    """Names of all runs"""


def outcome(runs: Sequence[RunRecord], softmax: Sequence[RunRecord] = ()) -> CellOutcome | None:
    """The numbers of a training, compared with `softmax`; None if it was never begun."""
    if not runs:
        return None
    mine = last_errors(runs)
    best = [run.best_error for run in runs if run.counts and run.best_error is not None]
    differences = paired(mine, last_errors(softmax))
    return CellOutcome(
        n=len(mine),
        last=summarise(list(mine.values())) if mine else None,
        best=summarise(best) if best else None,
        diverged=sum(run.state == "diverged" for run in runs),
        unfinished=sum(not run.has_ended for run in runs),
        difference=contrast(differences) if differences else None,
        runs=tuple(run.name for run in runs),
    )


def last_errors(runs: Sequence[RunRecord]) -> dict[int, float]:
    """Errors of the finished runs, by seed."""
    return {
        run.seed: run.last_error
        for run in runs
        if run.counts and run.last_error is not None and run.seed is not None
    }


def as_softmax(experiment: Experiment) -> Experiment | None:
    """The same training with softmax blocks; None for one without blocks, or with these."""
    block = experiment.block
    if block.attention == SOFTMAX or not experiment.blocks:
        return None
    block = replace(
        block, attention=SOFTMAX, scale=True, center=None, reference_pixels=None, order="auto"
    )
    return replace(experiment, block=block)


def own_attentions_in(runs: Cells) -> tuple[OwnAttention, ...]:
    """The attentions of users' own that runs have; fingerprints tell those of one name apart."""
    found: dict[str, str] = {}
    for members in runs.values():
        experiment = members[0].experiment
        if experiment is not None and experiment.blocks:
            name = experiment.block.attention
            entries = (one for one in experiment.code if one.partition("=")[0] == name)
            found |= dict.fromkeys(entries, name)
    found = dict(sorted(found.items())[:MOST_OWN])
    names = list(found.values())
    return tuple(
        OwnAttention(
            name, code, name if names.count(name) == 1 else f"{name} {code.partition('=')[2][:6]}"
        )
        for code, name in found.items()
    )


def scales_of(runs: Cells) -> list[Scale]:
    """The scales in float32, and in every other precision that runs have; full recipes first."""
    every = (run.experiment for members in runs.values() for run in members)
    found = {"fp32", *(experiment.precision for experiment in every if experiment is not None)}
    used = [precision for precision in PRECISIONS if precision in found]
    return [scale_at(name, precision) for precision in used for name in reversed(SCALES)]


def describe_block(experiment: Experiment) -> str:
    """The blocks of an experiment in a few words."""
    block = experiment.block
    dropout = [f"dropout {experiment.dropout:g}"] if experiment.dropout else []
    if not experiment.blocks:
        position = ["position only"] if experiment.position else []
        return ", ".join(["no blocks", *position, *dropout])
    words: list[str] = [block.attention]
    words += [f"{block.view} only"] if block.view != "base" else []
    words += [counted(experiment.blocks, "block")]
    words += [counted(block.heads, "head")]
    words += [f"{block.embed_channels} embedding channels"] if block.embed_channels else []
    words += [f"init {block.init}"] if block.init is not None else []
    words += ["no scaling factor"] if not block.scale else []
    words += [CENTERS[block.center]] if block.center else []
    words += [f"reference pixels {block.reference_pixels}"] if block.reference_pixels else []
    words += [_pooling(block)] if block.key_pool else []
    words += [f"softmax scale {block.softmax_scale}"] if block.softmax_scale != "embed" else []
    if not block.norm:
        words += ["no norm"]
    elif block.norm_init != 1:
        words += [f"batch norm starts at {block.norm_init:g}"]
    names = biased(block.bias)
    words += ["biases" if names == CONVOLUTIONS else f"bias of {', '.join(names)}"] * bool(names)
    words += [f"behind {', '.join(experiment.at)}"] if experiment.at else []
    if experiment.has_position != (not experiment.at):
        words += ["position" if experiment.has_position else "no position"]
    return ", ".join([*words, *dropout])


def shown_as(experiment: Experiment) -> tuple[object, ...]:
    """What a row of a table shows of a training: data, network, blocks and length."""
    one = experiment
    return one.data_name, one.model, one.epochs, one.limit, one.precision, describe_block(one)


def _options(experiment: Experiment) -> dict[str, Any]:
    """What makes results differ, by the names and in the words of the command line."""
    found = {}
    for name, value in dotted(experiment.cell_values()).items():
        last = name.rpartition(".")[2]
        words = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
        found[last if last in MOVED else name] = words
    return found


def told_apart(
    experiments: Sequence[Experiment], shown: Callable[[Experiment], object] = shown_as
) -> dict[str, str]:
    """By cell, the options in which trainings differ of which the same is shown."""
    alike: dict[object, list[Experiment]] = {}
    for one in experiments:
        alike.setdefault(shown(one), []).append(one)
    found = {}
    for group in alike.values():
        options = [_options(one) for one in group]
        names = [
            name
            for name in dict.fromkeys(name for values in options for name in values)
            if len({str(values.get(name)) for values in options}) > 1
        ]
        for one, values in zip(group, options, strict=True):
            words = [f"{name} {values[name]}" for name in names if values.get(name) is not None]
            found[one.cell] = ", ".join(words)
    return found


def _pooling(block: BlockConfig) -> str:
    size = block.key_pool_size
    by = size if isinstance(size, int) else " x ".join(map(str, size))
    return f"keys pooled by {by} {block.key_pool} phi and g"
