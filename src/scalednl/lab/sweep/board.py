"""Where every run of a sweep stands."""

import time
from collections import Counter
from typing import Literal

from scalednl.lab.sweep.plan import PlannedRun

Standing = Literal[
    "waiting", "running", "elsewhere", "interrupted", "finished", "diverged", "failed", "blocked"
]
"""`running`: handed to the engine; `elsewhere`: another process is at work on it"""
FROM_PLAN: dict[str, Standing] = {
    "finished": "finished",
    "diverged": "diverged",
    "running": "elsewhere",
    "damaged": "failed",
}
"""Where a run begins; those that are not here wait"""


class Board:
    """The standing of all runs, and what happened to them in this sweep."""

    def __init__(self, runs: list[PlannedRun]) -> None:
        self.runs = {run.name: run for run in runs}
        self.notes = {run.name: run.note for run in runs}
        self.at_work: set[str] = set()
        """Names of runs that the engine has begun"""
        self.seconds: dict[str, float] = {}
        """That the runs which ended well took here"""
        self._standing: dict[str, Standing] = {
            run.name: FROM_PLAN.get(run.state, "waiting") for run in runs
        }
        self._failures: Counter[str] = Counter()
        self._begun: dict[str, float] = {}
        places = {name: place for place, name in enumerate(self.runs)}
        self._order = sorted(runs, key=lambda run: (run.turn, places[run.name]))

    def of(self, *standings: Standing) -> list[PlannedRun]:
        """The runs that stand so."""
        return [run for run in self._order if self._standing[run.name] in standings]

    def count(self) -> Counter[str]:
        """How many stand where."""
        return Counter(self._standing.values())

    def unfinished(self) -> bool:
        """Whether anything is left to do or to wait for."""
        return any(s in ("waiting", "running", "elsewhere") for s in self._standing.values())

    def ready(self) -> list[PlannedRun]:
        """Waiting runs whose needs are met."""
        return [
            run
            for run in self.of("waiting")
            if all(self._standing.get(name, "finished") == "finished" for name in run.after)
        ]

    def block(self) -> None:
        """Mark the runs that need one which will not be there."""
        for run in self.of("waiting"):
            for name in run.after:
                standing = self._standing.get(name)
                if standing in ("failed", "diverged", "blocked"):
                    self.notes[run.name] = f"it needs {name}, which is {standing}"
                    self.set(run, "blocked")

    def see(self, at_work: set[str]) -> None:
        """What the engine has begun and not ended; a run may stand in line before."""
        for name in at_work - self.at_work:
            self._begun[name] = time.monotonic()
        self.at_work = at_work

    def set(self, run: PlannedRun, standing: Standing) -> None:
        """Where it stands now."""
        if standing == "finished" and run.name in self._begun:
            self.seconds[run.name] = time.monotonic() - self._begun[run.name]
        self._standing[run.name] = standing

    def failures(self, run: PlannedRun) -> int:
        """How often it has failed in this sweep."""
        return self._failures[run.name]

    def fail(self, run: PlannedRun, message: str, again: bool) -> None:
        """One more failure; `again`: it may be tried once more."""
        self._failures[run.name] += 1
        self.notes[run.name] = message
        self._standing[run.name] = "waiting" if again else "failed"
