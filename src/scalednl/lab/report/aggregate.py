"""What the runs of one training say together: means, spread, differences, and which they are."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scalednl.lab.config import Experiment
from scalednl.lab.records.runs import PRECISIONS, Cells, RunRecord, cell_of
from scalednl.lab.stats import contrast, paired, summarise


def outcome(
    experiment: Experiment,
    runs: Cells,
    softmax: Experiment | None = None,
    precision: str = PRECISIONS["fp32"],
) -> dict[str, Any] | None:
    """The numbers of a training over its seeds; None if it was never begun.

    `softmax` is the training that it is compared with.
    """
    members = runs.get(cell_of(experiment, precision), ())
    if not members:
        return None
    done = [run for run in members if run.counts]
    last = [value for run in done if (value := run.last_error) is not None]
    best = [value for run in done if (value := run.best_error) is not None]
    others = () if softmax is None else runs.get(cell_of(softmax, precision), ())
    differences = paired(_last_errors(members), _last_errors(others))
    return {
        "n": len(done),
        "last": summarise(last).as_dict() if last else None,
        "best": summarise(best).as_dict() if best else None,
        "diverged": sum(run.state == "diverged" for run in members),
        "unfinished": sum(run.state not in ("finished", "diverged") for run in members),
        "difference": contrast(differences).as_dict() if differences else None,
        "runs": [run.name for run in members],
    }


def as_softmax(experiment: Experiment) -> Experiment | None:
    """The same training with softmax blocks; None for one without scaled blocks."""
    block = experiment.block
    if block.attention != "scaled" or not block.blocks:
        return None
    return replace(experiment, block=replace(block, attention="softmax", scale=True, order="auto"))


def _last_errors(runs: Sequence[RunRecord]) -> dict[int, float]:
    found = {}
    for run in runs:
        error = run.last_error
        if run.counts and error is not None and run.experiment is not None:
            found[run.experiment.seed] = error
    return found


def describe_block(experiment: Experiment) -> str:
    """The blocks of an experiment in a few words."""
    block = experiment.block
    if not block.blocks:
        return "no blocks, position only" if experiment.position else "no blocks"
    words: list[str] = [block.attention]
    words += [f"{block.view} only"] if block.view != "base" else []
    words += [f"{block.blocks} block{'s' * (block.blocks > 1)}"]
    words += [f"{block.heads} head{'s' * (block.heads > 1)}"]
    words += [f"{block.embed_channels} embedding channels"] if block.embed_channels else []
    words += [f"init {block.init}"] if block.init is not None else []
    words += ["no scaling factor"] if not block.scale else []
    words += [f"softmax scale {block.softmax_scale}"] if block.softmax_scale != "embed" else []
    words += [f"batch norm starts at {block.norm_init:g}"] if block.norm_init != 1 else []
    words += ["no position"] if experiment.position is False else []
    return ", ".join(words)
