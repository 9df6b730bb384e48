"""How long a training takes, from those that have finished."""

from collections.abc import Callable, Sequence
from statistics import fmean, median

from scalednl.lab.config import Experiment
from scalednl.lab.paper.costs import CPU_THREAD_RATE, training_multiply_adds
from scalednl.lab.report.runs import Run

THREADS = 2
"""Assumed until a run has finished"""


def seconds_from(runs: Sequence[Run]) -> Callable[[Experiment], float]:
    """Seconds of any training: the mean of its own runs, or its multiply-adds at the usual rate."""
    taken: dict[str, list[float]] = {}
    rates = []
    for run in runs:
        seconds = float(run.result.get("seconds") or 0)
        if run.counts and seconds > 0 and run.experiment is not None:
            taken.setdefault(run.experiment.cell, []).append(seconds)
            try:
                rates.append(training_multiply_adds(run.experiment) / seconds)
            except (KeyError, ValueError):
                # Data or a network outside the paper's grids, whose work is not known here.
                continue
    rate = median(rates) if rates else CPU_THREAD_RATE * THREADS

    def seconds_of(experiment: Experiment) -> float:
        mine = taken.get(experiment.cell)
        return fmean(mine) if mine else training_multiply_adds(experiment) / rate

    return seconds_of
