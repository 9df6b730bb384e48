"""How far the runs of a sweep are, by their epochs, and the time that is left."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from scalednl.lab.records.run import finished_epochs
from scalednl.lab.sweep.plan import PlannedRun
from scalednl.lab.sweep.schedule import SweepState


@dataclass(frozen=True)
class Seen:
    """The finished epochs of a run that is at work, and when the last of them was noticed."""

    epochs: int
    time: float


class SweepProgress:
    """Looks at the epochs of running runs; the pace of all that was trained here gives the rest."""

    def __init__(
        self,
        seconds_of: Callable[[PlannedRun], float],
        width: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds_of, self._width, self._clock = seconds_of, max(1, width), clock
        self._seen: dict[str, Seen] = {}

    def look(self, state: SweepState) -> list[PlannedRun]:
        """Look at all runs at work; those that have finished an epoch since the last look."""
        found = []
        for name in sorted(state.at_work):
            run, start = state.runs[name], state.started[name]
            before = self._seen.get(name)
            if before is None or before.time < start.time:
                before = Seen(start.epochs, start.time)
            epochs = finished_epochs(run.path)
            if epochs > before.epochs:
                found.append(run)
                before = Seen(epochs, self._clock())
            self._seen[name] = before
        return found

    def epochs(self, run: PlannedRun) -> int:
        """Epochs that a run had finished at the last look."""
        return self._seen[run.name].epochs if run.name in self._seen else run.epochs_done

    def left(self, state: SweepState) -> float:
        """Seconds until the last run ends."""
        pace = self._pace(state)
        todo = [
            self._rest(run, pace)
            if run.name in state.at_work and run.name in self._seen
            else pace * self._work(run, self.epochs(run))
            for run in state.having("waiting", "running")
        ]
        # However many run at a time, the sweep lasts at least as long as its longest run.
        return max(sum(todo) / self._width, max(todo, default=0.0))

    def _pace(self, state: SweepState) -> float:
        """Seconds taken per second estimated, over runs that ended here and epochs of others."""
        taken, expected = 0.0, 0.0
        for name, seconds in state.seconds.items():
            taken += seconds
            expected += self._work(state.runs[name], state.started[name].epochs)
        for name in state.at_work & self._seen.keys():
            run, start, seen = state.runs[name], state.started[name], self._seen[name]
            if seen.epochs > start.epochs:
                taken += seen.time - start.time
                expected += self._work(run, start.epochs) - self._work(run, seen.epochs)
        return taken / expected if taken and expected else 1.0

    def _rest(self, run: PlannedRun, pace: float) -> float:
        """What a run at work still takes; an epoch that is late slows down those after it."""
        seen = self._seen[run.name]
        spent = self._clock() - seen.time
        epoch = self._seconds_of(run) / run.experiment.epochs
        pace = max(pace, spent / epoch) if epoch else pace
        return max(0.0, pace * self._work(run, seen.epochs) - spent)

    def _work(self, run: PlannedRun, done: int) -> float:
        """Estimated seconds of the epochs after the first `done`."""
        return self._seconds_of(run) * (1 - min(1.0, done / run.experiment.epochs))
