"""Which runs some tables and figures need, and how far each of them is. Imports no torch."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from scalednl.lab.config import Experiment
from scalednl.lab.paper.grids import Artefact
from scalednl.lab.paper.scales import Scale, run_name
from scalednl.lab.recipes import recipes
from scalednl.lab.sweep.found import Found, State, look_around

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
    turn: tuple[int, int] = (0, 0)
    """Runs with smaller ones come first"""

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
    cells: dict[str, _Wanted] = {}
    for number, artefact in enumerate(chosen):
        for cell, experiment in artefact.trainings(scale):
            found = cells.setdefault(experiment.cell, _Wanted(experiment))
            count = artefact.seeds or scale.seeds_of(cell.setting)
            found.add(artefact, number, count if seeds is None else seeds)
    tuned = [wanted for wanted in cells.values() if wanted.experiment.finetune]
    pretrain = recipes()[PRETRAIN]
    needed = tuple(dict.fromkeys(name for wanted in tuned for name in wanted.names))
    first: dict[int, str] = {}
    # Every seed has a pretrained network of its own: with one for all, the seeds would share it.
    for seed in range(max((len(wanted.turns) for wanted in tuned), default=0)):
        one = replace(pretrain, seed=seed)
        first[seed] = run_name(one)
        yield PlannedRun(run_name(one), one, out / run_name(one), needed, turn=(0, seed)), one.cell
    for key, wanted in cells.items():
        for seed, turn in enumerate(wanted.turns):
            one = replace(wanted.experiment, seed=seed)
            after = (first[seed],) if one.finetune else ()
            name = run_name(one)
            run = PlannedRun(name, one, out / name, tuple(wanted.names), after=after, turn=turn)
            yield run, key


@dataclass
class _Wanted:
    """A training, who wants it, and when each of its seeds has its turn."""

    experiment: Experiment
    names: list[str] = field(default_factory=list)
    turns: list[tuple[int, int]] = field(default_factory=list)

    def add(self, artefact: Artefact, number: int, seeds: int) -> None:
        if artefact.name not in self.names:
            self.names.append(artefact.name)
        for seed in range(len(self.turns), seeds):
            early = artefact.first_seeds is None or seed < artefact.first_seeds
            in_order = 0 if artefact.first_seeds is None else 2 * number + (not early)
            self.turns.append((in_order, seed))


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
