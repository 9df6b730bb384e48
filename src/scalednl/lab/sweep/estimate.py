"""How long runs will take: at the paper's rate, and here."""

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean, median

from scalednl.lab.config import Experiment
from scalednl.lab.paper.costs import CPU_THREAD_RATE, paper_gpu_rate, training_multiply_adds
from scalednl.lab.sweep.found import Found
from scalednl.lab.sweep.plan import PlannedRun


@dataclass(frozen=True)
class Rates:
    """Multiply-adds a second of one run here."""

    usual: float
    words: str
    """Where `usual` comes from"""
    cells: dict[str, float] = field(default_factory=dict)
    """Of trainings that have been finished here, by cell"""

    def seconds(self, experiment: Experiment) -> float:
        """Of all epochs of an experiment."""
        rate = self.cells.get(experiment.cell, self.usual) if self.cells else self.usual
        return training_multiply_adds(experiment) / rate

    def seconds_left(self, run: PlannedRun) -> float:
        """Of the epochs that a run still lacks."""
        if run.is_over:
            return 0.0
        share = 1 - min(1.0, run.epochs_done / run.experiment.epochs)
        return share * self.seconds(run.experiment)


def paper_hours(experiment: Experiment) -> float:
    """On the paper's GPU."""
    return training_multiply_adds(experiment) / paper_gpu_rate() / 3600


def rates(found: Iterable[Found], threads: int) -> Rates:
    """From what finished runs took, or else a usual processor's rate for so many threads."""
    measured: dict[str, list[float]] = {}
    devices = set()
    for one in found:
        rate = _rate(one, threads)
        if rate is not None and one.experiment is not None and one.run is not None:
            measured.setdefault(one.experiment.cell, []).append(rate)
            devices.add(str(one.run.get("device")))
    if not measured:
        words = (
            f"{CPU_THREAD_RATE / 1e9:.0f} G multiply-adds a second for each of {threads} threads, "
            "a default: no run has finished here yet"
        )
        return Rates(CPU_THREAD_RATE * threads, words)
    every = [rate for values in measured.values() for rate in values]
    usual = median(every)
    words = (
        f"{usual / 1e9:.1f} G multiply-adds a second, the median of {len(every)} finished "
        f"run{'s' * (len(every) > 1)} here on {' and '.join(sorted(devices))}"
    )
    return Rates(usual, words, {cell: fmean(values) for cell, values in measured.items()})


def _rate(one: Found, threads: int) -> float | None:
    """What a finished run reached, as if with so many threads; None where it does not say."""
    if one.state != "done" or one.experiment is None:
        return None
    result, run = one.result or {}, one.run or {}
    try:
        rate = training_multiply_adds(one.experiment) / float(result["seconds"])
        if run["device"] == "cpu":
            rate *= threads / int(run["threads"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return rate if 1 < rate < math.inf else None


def cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
