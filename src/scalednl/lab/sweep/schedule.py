"""A sweep: ready runs are started, failed ones tried again, needed ones done first."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from scalednl.errors import CommandError
from scalednl.lab.records.failure import clear_failure, write_failure
from scalednl.lab.records.runs import read_run
from scalednl.lab.signals import watching_signals
from scalednl.lab.sweep.board import Board
from scalednl.lab.sweep.jobs import End, Engine, Job
from scalednl.lab.sweep.plan import PlannedRun

NOTICE = b"\nStopping: running runs save and end. Once more to leave at once.\n"
WAIT_SECONDS = 0.3
LOOK_SECONDS = 2.0
"""Between two looks at runs that other processes work on"""


@runtime_checkable
class Watcher(Protocol):
    """Who is told how a sweep goes."""

    def update(self, board: Board) -> None:
        """Time has passed."""

    def say(self, board: Board, run: PlannedRun, text: str) -> None:
        """Something happened to a run."""

    def leave(self) -> None:
        """The process ends at once."""


@dataclass(frozen=True)
class Summary:
    """How a sweep ended, by the names of its runs."""

    done: tuple[str, ...]
    diverged: tuple[str, ...]
    failed: dict[str, str] = field(default_factory=dict)
    """With a sentence"""
    blocked: dict[str, str] = field(default_factory=dict)
    """Those that need a failed one"""
    left: tuple[str, ...] = ()
    """Not ended, because of the signal"""
    signal: int = 0

    @property
    def exit_code(self) -> int:
        """0 when every run has a result."""
        if self.signal:
            return 128 + self.signal
        return 1 if self.failed or self.blocked or self.left else 0


def sweep(
    planned: Iterable[PlannedRun],
    engine: Engine,
    make_job: Callable[[PlannedRun], Job],
    *,
    watcher: Watcher,
    retries: int = 2,
) -> Summary:
    """Work on planned runs until each has ended, has failed too often, or a signal comes."""
    board = Board(list(planned))

    def leave() -> None:
        engine.kill()
        watcher.leave()

    with watching_signals(NOTICE, leave) as stop:
        asked, looked = False, 0.0
        while board.unfinished() and not (stop.signal and not board.of("running")):
            if stop.signal and not asked:
                asked = True
                engine.interrupt(stop.signal)
            if not stop.signal:
                _start(board, engine, make_job)
            for name, end in engine.wait(WAIT_SECONDS):
                _note(board, board.runs[name], end, bool(stop.signal), retries, watcher)
            if time.monotonic() - looked >= LOOK_SECONDS:
                looked = time.monotonic()
                _look_elsewhere(board, watcher)
            board.see(engine.at_work())
            watcher.update(board)
    return _summary(board, stop.signal)


def _start(board: Board, engine: Engine, make_job: Callable[[PlannedRun], Job]) -> None:
    """As many as there is room for, in the order of their turns."""
    board.block()
    for run in board.ready()[: max(0, engine.room())]:
        board.set(run, "running")
        engine.start(make_job(run))


def _note(
    board: Board, run: PlannedRun, end: End, stopping: bool, retries: int, watcher: Watcher
) -> None:
    """What the end of an attempt means for the run."""
    if end.how == "unseen":
        raise CommandError(end.message)
    if end.how in ("finished", "diverged"):
        with suppress(OSError):
            clear_failure(run.path)
        board.set(run, end.how)
        watcher.say(board, run, end.message)
    elif end.how == "busy":
        board.set(run, "elsewhere")
        watcher.say(board, run, "another process is at work on it; waiting for that")
    elif stopping:
        with suppress(OSError):
            clear_failure(run.path)
        board.set(run, "interrupted")
        watcher.say(board, run, end.message)
    else:
        message = end.message if end.how != "interrupted" else f"it was stopped: {end.message}"
        with suppress(OSError):
            write_failure(run.path, message)
        again = board.failures(run) < retries and end.how != "refused"
        board.fail(run, message, again)
        watcher.say(board, run, f"failed{', trying again' if again else ''}: {message}")


def _look_elsewhere(board: Board, watcher: Watcher) -> None:
    """Runs that other processes had: ended there, or free to be gone on with here."""
    for run in board.of("elsewhere"):
        found = read_run(run.path)
        if found.state in ("finished", "diverged"):
            board.set(run, found.state)
            watcher.say(board, run, "finished by another process")
        elif found.state != "running":
            board.set(run, "waiting")


def _summary(board: Board, signal: int) -> Summary:
    left = [*board.of("waiting"), *board.of("interrupted"), *board.of("elsewhere")]
    return Summary(
        done=tuple(run.name for run in board.of("finished")),
        diverged=tuple(run.name for run in board.of("diverged")),
        failed={run.name: board.notes[run.name] for run in board.of("failed")},
        blocked={run.name: board.notes[run.name] for run in board.of("blocked")},
        left=tuple(run.name for run in left),
        signal=signal,
    )
