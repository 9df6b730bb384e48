"""How long trainings take: on the paper's GPU, and here."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean, median

from scalednl.config import is_foreign
from scalednl.errors import CommandError
from scalednl.lab.config import Experiment
from scalednl.lab.console import counted
from scalednl.lab.paper.costs import CPU_THREAD_RATE, paper_gpu_rate, training_multiply_adds
from scalednl.lab.records.runs import RunRecord

THREADS = 2
"""Assumed where no run has finished and no number is given"""


@dataclass(frozen=True)
class Rates:
    """The speed of runs here."""

    usual: float
    """Multiply-adds per second"""
    words: str
    """Where `usual` comes from"""
    cells: dict[str, float] = field(default_factory=dict)
    """Seconds of trainings that have finished here, by cell"""

    def seconds(self, experiment: Experiment) -> float:
        """Seconds of all epochs of an experiment, measured or from a count of its work.

        The work of networks from elsewhere is not counted: without a measured time they raise.
        """
        measured = self.cells.get(experiment.cell) if self.cells else None
        if measured is None and is_foreign(experiment.model):
            raise CommandError(
                f"the time of {experiment.model} is not known: it is not one of the paper's "
                "networks, and no run of it has finished here; `scalednl train` with --dry-run "
                "measures it"
            )
        return training_multiply_adds(experiment) / self.usual if measured is None else measured


def paper_hours(experiment: Experiment) -> float:
    """Hours on the paper's GPU."""
    return training_multiply_adds(experiment) / paper_gpu_rate() / 3600


def rates(found: Iterable[RunRecord], threads: int | None = None) -> Rates:
    """The speed of finished runs, or else a usual processor's.

    With `threads`, the speed is scaled from the threads that a run had to so many.
    """
    taken: dict[str, list[float]] = {}
    every: list[float] = []
    devices = set()
    for run in found:
        seconds = _seconds(run, threads)
        if seconds is None or run.cell is None or run.experiment is None:
            continue
        taken.setdefault(run.cell, []).append(seconds)
        devices.add(run.setup.device or "an unknown device")
        try:
            every.append(training_multiply_adds(run.experiment) / seconds)
        except (CommandError, KeyError, ValueError, OverflowError):
            # Data or a network outside the paper's tables, whose work is not known here.
            continue
    every = [rate for rate in every if 1 < rate < math.inf]
    if not every:
        words = (
            f"{CPU_THREAD_RATE / 1e9:.0f} G multiply-adds per second for each of "
            f"{counted(threads or THREADS, 'thread')}, a default: no run has finished here yet"
        )
        usual = CPU_THREAD_RATE * (threads or THREADS)
    else:
        usual = median(every)
        words = (
            f"{usual / 1e9:.1f} G multiply-adds per second, the median of "
            f"{counted(len(every), 'finished run')} here on {' and '.join(sorted(devices))}"
        )
    return Rates(usual, words, {cell: fmean(seconds) for cell, seconds in taken.items()})


def _seconds(run: RunRecord, threads: int | None) -> float | None:
    """How long a finished run took, as if with so many threads; None where it is unknown."""
    if not run.counts or run.result is None or not run.result.seconds:
        return None
    if threads is None or run.setup.device != "cpu" or not run.setup.threads:
        return run.result.seconds
    return run.result.seconds * run.setup.threads / threads
