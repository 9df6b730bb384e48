"""Which runs some tables and figures need, and how far each of them is. Imports no torch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from scalednl.config import Experiment
from scalednl.paper.artefacts import Artefact
from scalednl.paper.recipes import recipes
from scalednl.paper.scales import Scale, run_name
from scalednl.sweep.found import Found, State, look_around

PRETRAIN = "tiny-preresnet50-plain-pretrain"


@dataclass(frozen=True)
class PlannedRun:
    """One training, wanted by one or more tables."""

    name: str
    experiment: Experiment
    path: Path
    artefacts: tuple[str, ...] = ()
    """Who needs it"""
    state: State = "waiting"
    after: tuple[str, ...] = ()
    """Runs that must have ended before"""
    note: str = ""
    """Why, where the state alone does not say"""
    epochs_done: int = 0

    @property
    def is_over(self) -> bool:
        """Whether it has a result; diverging is one."""
        return self.state in ("done", "diverged")


@dataclass(frozen=True)
class Plan:
    """All runs, those of the first table first; and what lay in the folder."""

    runs: tuple[PlannedRun, ...]
    found: tuple[Found, ...] = ()


def make_plan(chosen: list[Artefact], scale: Scale, out: Path, seeds: int | None = None) -> Plan:
    """The runs of these tables at a scale, each once, with what is already there.

    A run directory in `out` counts as a run, whatever its name, when only its `weights` or the
    order of its products differ.
    """
    found = look_around(out)
    # Where two folders hold the same run, the one that is further on counts.
    by_cell = {_cell_of(one): one for one in sorted(found, key=_standing)}
    by_path = {one.path: one for one in found}
    runs: dict[str, PlannedRun] = {}
    for wanted, cell in _wanted(chosen, scale, out, seeds):
        for name in wanted.after:
            begun_from = str(runs[name].path.absolute())
            wanted = replace(wanted, experiment=replace(wanted.experiment, weights=begun_from))
        there = by_cell.get((cell, wanted.experiment.seed)) or by_path.get(wanted.path)
        runs[wanted.name] = wanted if there is None else _as_found(wanted, there, cell)
    return Plan(tuple(runs.values()), tuple(found))


def _standing(one: Found) -> tuple[bool, bool, bool, int]:
    return (
        one.state == "done",
        one.state == "diverged",
        one.state == "running",
        one.epochs,
    )


def _wanted(
    chosen: list[Artefact], scale: Scale, out: Path, seeds: int | None
) -> Iterator[tuple[PlannedRun, str]]:
    """Every run with its cell; what others need stands before them."""
    cells: dict[str, tuple[Experiment, int, list[str]]] = {}
    for artefact in chosen:
        for cell, experiment in artefact.trainings(scale):
            count = scale.seeds_of(cell.setting) if seeds is None else seeds
            _, _, names = cells.setdefault(experiment.cell, (experiment, count, []))
            if artefact.name not in names:
                names.append(artefact.name)
    tuned = [names for experiment, _, names in cells.values() if experiment.finetune]
    pretrain = recipes()[PRETRAIN]
    needed = tuple(dict.fromkeys(name for names in tuned for name in names))
    first = PlannedRun(run_name(pretrain), pretrain, out / run_name(pretrain), needed)
    if tuned:
        yield first, pretrain.cell
    for key, (experiment, count, names) in cells.items():
        for seed in range(count):
            one = replace(experiment, seed=seed)
            after = (first.name,) if one.finetune else ()
            name = run_name(one)
            yield PlannedRun(name, one, out / name, tuple(names), after=after), key


def _cell_of(found: Found) -> tuple[str, int] | None:
    experiment = found.experiment
    return None if experiment is None else (experiment.cell, experiment.seed)


def _as_found(wanted: PlannedRun, there: Found, cell: str) -> PlannedRun:
    """The run as it lies there; a folder of something else makes it unusable."""
    if there.experiment is None:
        return replace(wanted, state=there.state, note=there.note)
    if _cell_of(there) != (cell, wanted.experiment.seed):
        changes = "; ".join(wanted.experiment.differences(there.experiment)[:3])
        return replace(wanted, state="unusable", note=f"it holds another experiment ({changes})")
    return replace(
        wanted,
        experiment=there.experiment,
        path=there.path,
        state=there.state,
        note=there.note,
        epochs_done=there.epochs,
    )
