"""The progress of a sweep: a table on a terminal, else a line for every event."""

import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from scalednl.errors import CommandError
from scalednl.lab.console import counted, duration, emit
from scalednl.lab.records.run import RunFolder
from scalednl.lab.signals import write_bytes
from scalednl.lab.sweep.plan import PlannedRun
from scalednl.lab.sweep.progress import SweepProgress
from scalednl.lab.sweep.schedule import SweepState

SECONDS = 1.0
"""Between two looks at the runs"""
SILENT_SECONDS = 45.0
"""Without a line, after which one tells how far the runs are"""
SHOW_CURSOR = b"\x1b[?25h\n"
SHOWN = 12
"""Running runs that the table shows"""
LISTED = 4
"""Running runs that a line names"""
LINES = 10
"""The most lines about the epochs of one run"""


class SweepDisplay:
    """Shows the progress of a sweep, within a `with` block."""

    def __init__(self, seconds_of: Callable[[PlannedRun], float], width: int = 1) -> None:
        self._progress, self._width = SweepProgress(seconds_of, width), max(1, width)
        self._live: Live | None = None
        self._has_begun = False
        self._looked = self._printed = time.monotonic()
        self._started: set[str] = set()
        """Runs at work whose start was printed"""

    def __enter__(self) -> "SweepDisplay":
        if sys.stdout.isatty():
            self._live = Live(console=Console(), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def begin(self, state: SweepState) -> None:
        """Print what there is to do, once and without a terminal."""
        todo = len(state.having("waiting", "running", "elsewhere"))
        if self._live is None and not self._has_begun:
            self._has_begun = True
            runs = f"{counted(len(state.runs), 'run')}, {todo} to do, {self._width} at a time"
            self._print(runs + self._words_left(state))

    def update(self, state: SweepState) -> None:
        """Draw the table again or print what has happened, if it is time."""
        if time.monotonic() - self._looked < SECONDS:
            return
        self._looked = time.monotonic()
        further = self._progress.look(state)
        if self._live is not None:
            self._live.update(self._draw(state), refresh=True)
            return
        for name in sorted(state.at_work - self._started):
            self._print_event(state, state.runs[name], _start(state, name))
        self._started = set(state.at_work)
        for run in further:
            self._report_epoch(state, run)
        if time.monotonic() - self._printed >= SILENT_SECONDS:
            self._print(f"{_count(state)} {self._summary(state)}{self._words_left(state)}")

    def report(self, state: SweepState, run: PlannedRun, text: str) -> None:
        """Print how an attempt at a run has ended."""
        if self._live is not None:
            self._live.console.print(Text(f"{_count(state)} {run.name}: {text}"))
        else:
            self._print_event(state, run, text)

    def restore_terminal(self) -> None:
        """Show the cursor again, before the process ends at once."""
        if self._live is not None:
            write_bytes(1, SHOW_CURSOR)

    def _print(self, line: str) -> None:
        self._printed = time.monotonic()
        emit(line)

    def _print_event(self, state: SweepState, run: PlannedRun, text: str) -> None:
        self._print(f"{_count(state)} {run.name}: {text}{self._words_left(state)}")

    def _words_left(self, state: SweepState) -> str:
        left = self._progress.left(state)
        return f"; about {duration(left)} left" if left else ""

    def _report_epoch(self, state: SweepState, run: PlannedRun) -> None:
        """Print the epoch of a run; the last one has the line of the result.

        Of a run with many epochs most are passed over.
        """
        done, epochs = self._progress.epochs(run), run.experiment.epochs
        if done % math.ceil(epochs / LINES) == 0 and done < epochs:
            self._print_event(state, run, f"epoch {done}/{epochs}{_last_error(run)}")

    def _summary(self, state: SweepState) -> str:
        """What the sweep waits for."""
        running = self._running(state)
        words = [
            f"{run.name} epoch {self._progress.epochs(run)}/{run.experiment.epochs}"
            for run in running[:LISTED]
        ]
        words += [f"{len(running) - LISTED} more"] if len(running) > LISTED else []
        elsewhere = state.count()["elsewhere"]
        words += [f"{counted(elsewhere, 'run')} in other processes"] if elsewhere else []
        return f"running: {', '.join(words)}" if words else "waiting for the first run to start"

    def _running(self, state: SweepState) -> list[PlannedRun]:
        return [run for run in state.having("running") if run.name in state.at_work]

    def _draw(self, state: SweepState) -> Group:
        counts, running = state.count(), self._running(state)
        queued = counts["running"] - len(running)
        words = [
            f"{counts['finished'] + counts['diverged']} finished",
            f"{len(running)} running",
            f"{counts['waiting'] + queued} waiting",
            f"{counts['failed'] + counts['blocked']} failed",
        ]
        if counts["elsewhere"]:
            words.append(f"{counts['elsewhere']} running elsewhere")
        if counts["interrupted"]:
            words.append(f"{counts['interrupted']} interrupted")
        left = self._progress.left(state)
        if left:
            words.append(f"about {duration(left)} left")
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        for run in running[:SHOWN]:
            epochs = self._progress.epochs(run)
            table.add_row(Text(run.name), f"epoch {epochs}/{run.experiment.epochs}")
        return Group(table, Text(" · ".join(words)))


def _count(state: SweepState) -> str:
    counts = state.count()
    return f"[{counts['finished'] + counts['diverged']}/{len(state.runs)}]"


def _start(state: SweepState, name: str) -> str:
    done = state.started[name].epochs
    if done >= state.runs[name].experiment.epochs:
        return "recording its attention"
    return f"resumed after epoch {done}" if done else "started"


def _last_error(run: PlannedRun) -> str:
    """The test error of the last epoch; nothing where it was not tested."""
    with suppress(CommandError):
        epochs = RunFolder(run.path).read_epochs()
        if epochs and epochs[-1].test_error_pct is not None:
            return f", test error {epochs[-1].test_error_pct:.2f} %"
    return ""
