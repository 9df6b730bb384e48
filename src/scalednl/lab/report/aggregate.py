"""What the runs of one training say together: means, spread, differences, and which they are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scalednl.lab.config import Experiment
from scalednl.lab.report.runs import Run
from scalednl.lab.stats import contrast, paired, summarise

Runs = Mapping[str, Sequence[Run]]
"""By cell"""


def by_cell(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs that only their seeds tell apart, together; of one seed twice, the one that counts."""
    same: dict[tuple[str, int], list[Run]] = {}
    for run in runs:
        if run.experiment is not None and run.cell is not None:
            same.setdefault((run.cell, run.experiment.seed), []).append(run)
    found: dict[str, list[Run]] = {}
    for (cell, _), members in sorted(same.items(), key=lambda item: item[0]):
        found.setdefault(cell, []).append(min(members, key=_rank))
    return found


def _rank(run: Run) -> tuple[bool, int, str]:
    """A run that has ended counts before others; of two, the earlier: repeating hides nothing."""
    if run.counts or run.status == "diverged":
        return False, 0, str(run.origin.get("date") or "")
    return True, -len(run.epochs), ""


def outcome(
    experiment: Experiment, runs: Runs, softmax: Experiment | None = None
) -> dict[str, Any] | None:
    """The numbers of a training over its seeds; None if it was never begun.

    `softmax` is the training that it is compared with.
    """
    members = runs.get(experiment.cell, ())
    if not members:
        return None
    done = [run for run in members if run.counts]
    last = [value for run in done if (value := run.error("last")) is not None]
    best = [value for run in done if (value := run.error("best")) is not None]
    others = () if softmax is None else runs.get(softmax.cell, ())
    differences = paired(_last_errors(members), _last_errors(others))
    return {
        "n": len(done),
        "last": summarise(last).as_dict() if last else None,
        "best": summarise(best).as_dict() if best else None,
        "diverged": sum(run.status == "diverged" for run in members),
        "unfinished": sum(run.status not in ("finished", "diverged") for run in members),
        "difference": contrast(differences).as_dict() if differences else None,
        "runs": [run.name for run in members],
    }


def as_softmax(experiment: Experiment) -> Experiment | None:
    """The same training with softmax blocks; None for one without scaled blocks."""
    block = experiment.block
    if block.attention != "scaled" or not block.blocks:
        return None
    return replace(experiment, block=replace(block, attention="softmax", scale=True, order="auto"))


def _last_errors(runs: Sequence[Run]) -> dict[int, float]:
    found = {}
    for run in runs:
        error = run.error("last")
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
