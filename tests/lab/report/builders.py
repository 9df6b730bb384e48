"""Run directories as training would leave them, without training."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from scalednl.lab.config import Experiment
from scalednl.lab.config.experiment import PRECISIONS
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.scales import SCALES, run_name
from scalednl.lab.records import Origin, origin
from scalednl.lab.records.run import (
    Epoch,
    ErrorSummary,
    Result,
    RunFolder,
    RunSetup,
    Status,
)


@cache
def _made() -> Origin:
    return origin(threads=2)


def write_run(
    folder: Path,
    experiment: Experiment,
    errors: list[float],
    status: Status = "finished",
    *,
    date: str | None = None,
) -> RunFolder:
    """A run with these test errors, one an epoch."""
    folder.mkdir(parents=True, exist_ok=True)
    run = RunFolder(folder)
    made = _made()
    precision = PRECISIONS[experiment.precision]
    run.write_config(experiment, RunSetup(train_images=5000, origin=made, precision=precision))
    run.write_epochs(
        [Epoch(epoch=i, test_error_pct=error, seconds=float(i)) for i, error in enumerate(errors)]
    )
    best = min(errors, default=None)
    found = Result(
        status=status,
        recipe=experiment.recipe,
        seed=experiment.seed,
        test_error_pct=ErrorSummary(errors[-1], best, errors.index(best))
        if best is not None
        else ErrorSummary(),
        seconds=12.0,
        images_per_second=900.0,
        parameters=1234,
        origin=made if date is None else replace(made, date=date),
    )
    run.write_result(found)
    return run


def cell_experiment(table: str, row: str, column: str, scale: str = "smoke") -> Experiment:
    """The experiment of a cell at seed 0, of the first data set that has one."""
    return next(
        experiment
        for cell, experiment in artefacts()[table].trainings(SCALES[scale])
        if (cell.row, cell.column) == (row, column)
    )


def write_cell(
    folder: Path, experiment: Experiment, errors: list[float], first_seed: int = 0
) -> None:
    """One finished run a seed, with these last errors."""
    for seed, error in enumerate(errors, first_seed):
        one = replace(experiment, seed=seed)
        write_run(folder / run_name(one), one, [error + 2.0, error - 0.5, error])
