"""Which runs some tables and figures need, and how far each of them is. Imports no torch."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from scalednl.lab.config import Experiment
from scalednl.lab.paper.grids import Artefact
from scalednl.lab.paper.hours import Rates, rates
from scalednl.lab.paper.scales import Scale, run_name
from scalednl.lab.recipes import PRETRAIN, recipes
from scalednl.lab.records.runs import (
    RunRecord,
    State,
    by_cell,
    find_runs,
)


@dataclass(frozen=True)
class PlannedRun:
    """One training, wanted by one or more tables."""

    name: str
    experiment: Experiment
    path: Path
    artefacts: tuple[str, ...] = ()
    """The tables and figures that need it"""
    state: State = "waiting"
    after: tuple[str, ...] = ()
    """Runs that must have ended before"""
    note: str = ""
    """Why, where the state alone does not say"""
    epochs_done: int = 0
    turn: tuple[int, int] = (0, 0)
    """Runs with smaller ones come first"""

    @property
    def cell(self) -> str:
        """What it shares with its runs of other seeds."""
        return self.experiment.cell

    @property
    def has_ended(self) -> bool:
        """Whether it has a result; diverging is one."""
        return self.state in ("finished", "diverged")

    def seconds(self, rates: Rates) -> float:
        """Seconds of all its epochs at these rates."""
        return rates.seconds(self.experiment)

    def seconds_left(self, rates: Rates) -> float:
        """Seconds of the epochs that it still lacks."""
        share = 1 - min(1.0, self.epochs_done / self.experiment.epochs)
        return 0.0 if self.has_ended else share * self.seconds(rates)


@dataclass(frozen=True)
class SweepPlan:
    """The runs that some tables need at a scale."""

    chosen: tuple[Artefact, ...]
    scale: Scale
    out: Path
    runs: tuple[PlannedRun, ...]
    """Those of the first table first"""
    found: tuple[RunRecord, ...]
    """What the folder already holds"""
    rates: Rates
    """How fast runs are here"""
    shared: tuple[str, ...] = ()
    """Options of `scalednl train` that all runs have"""


def make_sweep_plan(
    chosen: list[Artefact],
    scale: Scale,
    out: Path,
    seeds: int | None = None,
    threads: int | None = None,
) -> SweepPlan:
    """The runs of these tables at a scale, each once, with what is already there.

    A run directory in `out` counts as a run, whatever its name, when only its `weights` or the
    order of its products differ.
    """
    found = find_runs([out]) if out.is_dir() else []
    by_path = {one.path: one for one in found}
    there = {(cell, run.seed): run for cell, runs in by_cell(found).items() for run in runs}
    runs: dict[str, PlannedRun] = {}
    for wanted in _wanted(chosen, scale, out, seeds):
        for name in wanted.after:
            begun_from = str(runs[name].path.absolute())
            wanted = replace(wanted, experiment=replace(wanted.experiment, weights=begun_from))
        one = there.get((wanted.cell, wanted.experiment.seed)) or by_path.get(wanted.path)
        runs[wanted.name] = wanted if one is None else _as_found(wanted, one)
    speed = rates(found, threads)
    return SweepPlan(tuple(chosen), scale, out, tuple(runs.values()), tuple(found), speed)


def _wanted(
    chosen: list[Artefact], scale: Scale, out: Path, seeds: int | None
) -> Iterator[PlannedRun]:
    """Every run; those that others need come before them."""
    cells: dict[str, _Wanted] = {}
    for number, artefact in enumerate(chosen):
        for cell, experiment in artefact.trainings(scale):
            found = cells.setdefault(experiment.cell, _Wanted(experiment))
            count = artefact.seeds or scale.seeds_of(cell.setting)
            found.add(artefact, number, count if seeds is None else seeds)
    tuned = [wanted for wanted in cells.values() if wanted.experiment.finetune]
    # Every seed has a pretrained network of its own: with one for all, the seeds would share it.
    needed = _Wanted(replace(recipes()[PRETRAIN], precision=scale.precision))
    needed.names = list(dict.fromkeys(name for wanted in tuned for name in wanted.names))
    needed.turns = [(0, seed) for seed in range(max((len(one.turns) for one in tuned), default=0))]
    first: list[str] = []
    for wanted in (needed, *cells.values()):
        for seed, turn in enumerate(wanted.turns):
            one = replace(wanted.experiment, seed=seed)
            name = run_name(one)
            if wanted is needed:
                first.append(name)
            yield PlannedRun(
                *(name, one, out / name, tuple(wanted.names)),
                after=(first[seed],) if one.finetune else (),
                turn=turn,
            )


@dataclass
class _Wanted:
    """A training, the tables that need it, and when each of its seeds has its turn."""

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


def _as_found(wanted: PlannedRun, there: RunRecord) -> PlannedRun:
    """The run with the state of its folder; a folder of something else makes it damaged."""
    if there.experiment is None:
        return replace(wanted, state=there.state, note=there.note)
    if (there.cell, there.seed) != (wanted.cell, wanted.experiment.seed):
        changes = wanted.experiment.differences(there.experiment)[:3]
        note = f"it holds another experiment ({'; '.join(changes)})"
        return replace(wanted, state="damaged", note=note)
    return replace(
        wanted,
        experiment=there.experiment,
        path=there.path,
        # A damaged result is written again when the run resumes.
        state="interrupted" if there.state == "damaged" else there.state,
        note=there.note,
        epochs_done=len(there.epochs),
    )
