"""A sweep: runs start when they are ready, failed ones are retried, needed ones come first."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from scalednl.errors import CommandError
from scalednl.lab.console import duration
from scalednl.lab.heartbeat import NAME, Watch
from scalednl.lab.records.failure import clear_failure, write_failure
from scalednl.lab.records.run import RunFolder, finished_epochs
from scalednl.lab.records.runs import State, read_run
from scalednl.lab.signals import watching_signals
from scalednl.lab.sweep.plan import PlannedRun
from scalednl.lab.sweep.worker import Attempt, Job

if TYPE_CHECKING:
    from scalednl.lab.sweep.display import SweepDisplay

NOTICE = b"\nStopping: running runs save and end. Interrupt again to end them at once.\n"
WAIT_SECONDS = 0.3
STOP_SECONDS = 120.0
"""That runs have to save and end after a signal"""
STALL_SECONDS = 1800.0
"""Without a step, after which a run is ended and tried again"""
LOOK_SECONDS = 2.0
"""Between two checks of runs that other processes train"""

SweepStatus = Literal[
    "waiting", "running", "elsewhere", "interrupted", "finished", "diverged", "failed", "blocked"
]
"""`running`: handed to the engine; `elsewhere`: another process trains it; `blocked`: a run that it
needs has no result"""
FROM_PLAN: dict[str, SweepStatus] = {
    "finished": "finished",
    "diverged": "diverged",
    "running": "elsewhere",
    "damaged": "failed",
}
"""The status that a run starts with, by its state in the plan; all others wait"""
LOST = {"failed": "failed", "diverged": "diverged", "blocked": "is blocked"}


@runtime_checkable
class Engine(Protocol):
    """Where jobs are worked on."""

    def room(self) -> int:
        """How many more jobs may be started now."""

    def slots(self) -> int:
        """How many jobs can run at a time."""

    def start(self, job: Job) -> None:
        """Start a job, or queue it."""

    def wait(self, seconds: float) -> list[tuple[str, Attempt]]:
        """The jobs that have ended, each once; waits at most so long for the first of them."""

    def at_work(self) -> set[str]:
        """Names of jobs that have started and not ended."""

    def interrupt(self, number: int, /) -> None:
        """Ask all jobs to save and end, as this signal does; queued ones do not start."""

    def kill(self, names: Collection[str] | None = None, /) -> None:
        """End these jobs at once, or all of them."""

    def close(self) -> None:
        """Release what the engine holds."""


@dataclass(frozen=True)
class SweepOutcome:
    """How a sweep ended, by the names of its runs."""

    folders: dict[str, Path]
    """The folder of every run"""
    finished: tuple[str, ...] = ()
    diverged: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    """With the reason"""
    blocked: dict[str, str] = field(default_factory=dict)
    """With the run that each of them needs"""
    left: tuple[str, ...] = ()
    """Not ended, because of the signal"""
    signal: int = 0
    page: Path | None = None
    """The report, if one was written"""

    @property
    def exit_code(self) -> int:
        """0 when every run has a result."""
        if self.signal:
            return 128 + self.signal
        return 1 if self.failed or self.blocked or self.left else 0


@dataclass(frozen=True)
class Start:
    """When a run was last started here, and the epochs that it had then."""

    time: float
    epochs: int


class SweepState:
    """The status of all runs, and what happened to them in this sweep."""

    def __init__(
        self,
        runs: Iterable[PlannedRun],
        is_complete: Callable[[PlannedRun], bool] = lambda _: True,
    ) -> None:
        self.runs = {run.name: run for run in runs}
        self.notes = {run.name: run.note for run in self.runs.values()}
        self.at_work: set[str] = set()
        """Names of runs that the engine has started"""
        self.seconds: dict[str, float] = {}
        """That the runs which were trained to the end here took"""
        self.failures: Counter[str] = Counter()
        """In this sweep, by name"""
        self.stalled: dict[str, Attempt] = {}
        """Runs that were ended because they made no step, and what is recorded of them"""
        self._is_complete = is_complete
        self._status = {run.name: self._status_of(run, run.state) for run in self.runs.values()}
        self.started: dict[str, Start] = {}
        self._order = sorted(self.runs.values(), key=lambda run: run.turn)

    def _status_of(self, run: PlannedRun, state: State) -> SweepStatus:
        status = FROM_PLAN.get(state, "waiting")
        return "waiting" if status == "finished" and not self._is_complete(run) else status

    def having(self, *statuses: SweepStatus) -> list[PlannedRun]:
        """The runs with one of these statuses, in the order of their turns."""
        return [run for run in self._order if self._status[run.name] in statuses]

    def count(self) -> Counter[str]:
        """How many runs have each status."""
        return Counter(self._status.values())

    def change(self, run: PlannedRun, status: SweepStatus) -> None:
        """Change the status of a run."""
        start = self.started.get(run.name)
        if status == "finished" and start is not None and start.epochs < run.experiment.epochs:
            self.seconds[run.name] = time.monotonic() - start.time
        self._status[run.name] = status

    def set_at_work(self, names: set[str]) -> None:
        """Note which runs the engine works on; others that were handed to it are queued."""
        for name in names - self.at_work:
            epochs = finished_epochs(self.runs[name].path)
            self.started[name] = Start(time.monotonic(), epochs)
        self.at_work = names

    def ready(self) -> list[PlannedRun]:
        """Waiting runs whose needed runs have finished; those that never will be are blocked."""
        found = []
        for run in self.having("waiting"):
            needed = {name: self._status.get(name, "finished") for name in run.after}
            lost = next((name for name, status in needed.items() if status in LOST), None)
            if lost is not None:
                self.notes[run.name] = f"needs {lost}, which {LOST[needed[lost]]}"
                self.change(run, "blocked")
            elif all(status == "finished" for status in needed.values()):
                found.append(run)
        return found

    def check_elsewhere(self) -> list[PlannedRun]:
        """Runs that other processes have just ended; what they left unfinished waits again."""
        ended = []
        for run in self.having("elsewhere"):
            if RunFolder(run.path).is_locked():
                continue
            status = self._status_of(run, read_run(run.path).state)
            has_ended = status in ("finished", "diverged")
            self.change(run, status if has_ended else "waiting")
            if has_ended:
                ended.append(run)
        return ended

    def outcome(self, signal: int) -> SweepOutcome:
        """How the sweep ended."""

        def names(*statuses: SweepStatus) -> tuple[str, ...]:
            return tuple(run.name for run in self.having(*statuses))

        return SweepOutcome(
            {name: run.path for name, run in self.runs.items()},
            names("finished"),
            names("diverged"),
            {name: self.notes[name] for name in names("failed")},
            {name: self.notes[name] for name in names("blocked")},
            names("waiting", "interrupted", "elsewhere"),
            signal,
        )


def sweep(
    planned: Iterable[PlannedRun],
    engine: Engine,
    make_job: Callable[[PlannedRun], Job],
    *,
    display: "SweepDisplay",
    retries: int = 2,
    stall_seconds: float = STALL_SECONDS,
    is_complete: Callable[[PlannedRun], bool] = lambda _: True,
) -> SweepOutcome:
    """Work on planned runs until each has ended, has failed too often, or a signal comes.

    A finished run for which `is_complete` is false is handed to the engine too. A run that makes no
    step for `stall_seconds` is ended, and counts as failed. After a signal, runs have
    `STOP_SECONDS` to save.
    """
    state, watch = SweepState(planned, is_complete), Watch(stall_seconds)

    def leave() -> None:
        engine.kill()
        display.restore_terminal()

    with watching_signals(NOTICE, leave) as stop:
        asked, looked = 0.0, 0.0
        while state.having("waiting", "running", "elsewhere"):
            if stop.signal and not state.having("running"):
                break
            if stop.signal and not asked:
                asked = time.monotonic()
                engine.interrupt(stop.signal)
            if asked and time.monotonic() - asked >= STOP_SECONDS:
                engine.kill()
                for run in state.having("running"):
                    state.change(run, "interrupted")
                    display.report(state, run, f"ended: not saved within {STOP_SECONDS:.0f} s")
                break
            for run in [] if stop.signal else state.ready()[: max(0, engine.room())]:
                state.change(run, "running")
                engine.start(make_job(run))
            display.begin(state)
            for name, ended in engine.wait(WAIT_SECONDS):
                ended = state.stalled.pop(name, ended)
                _note(state, state.runs[name], ended, bool(stop.signal), retries, display)
            if time.monotonic() - looked >= LOOK_SECONDS:
                looked = time.monotonic()
                for run in state.check_elsewhere():
                    display.report(state, run, "finished by another process")
            state.set_at_work(engine.at_work())
            _end_stalled(state, engine, watch, stall_seconds)
            display.update(state)
    return state.outcome(stop.signal)


def _end_stalled(state: SweepState, engine: Engine, watch: Watch, seconds: float) -> None:
    """End runs that make no step; the engine reports their end as that of others."""
    work = {name: state.runs[name].path / NAME for name in state.at_work - state.stalled.keys()}
    if silent := watch.silent(work):
        watch.forget(silent)
        message = f"no step for {duration(seconds)}: it was ended"
        state.stalled |= dict.fromkeys(silent, Attempt("failed", message))
        engine.kill(silent)


def _note(
    state: SweepState,
    run: PlannedRun,
    ended: Attempt,
    stopping: bool,
    retries: int,
    display: "SweepDisplay",
) -> None:
    """Set the status of a run after an attempt, and report it."""
    result, message = ended.result, ended.message
    if result == "unusable":
        raise CommandError(message)
    if result in ("finished", "diverged") or (stopping and result != "busy"):
        with suppress(OSError):
            clear_failure(run.path)
        state.change(run, result if result in ("finished", "diverged") else "interrupted")
    elif result == "busy":
        state.change(run, "elsewhere")
        message = "waiting: another process is training it"
    else:
        reason = f"stopped: {message}" if result == "interrupted" else message
        with suppress(OSError):
            write_failure(run.path, reason)
        again = state.failures[run.name] < retries and result != "refused"
        state.failures[run.name] += 1
        state.notes[run.name] = reason
        state.change(run, "waiting" if again else "failed")
        message = f"failed{', retrying' if again else ''}: {reason}"
    display.report(state, run, message)
