"""The progress of a sweep: a table on a terminal, else a line for every event."""

import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from scalednl.lab.console import duration, emit
from scalednl.lab.records.run import finished_epochs
from scalednl.lab.signals import write_bytes
from scalednl.lab.sweep.plan import PlannedRun
from scalednl.lab.sweep.schedule import SweepState

SECONDS = 1.0
"""Between two drawings of the table"""
SHOW_CURSOR = b"\x1b[?25h\n"
SHOWN = 12
"""Running runs that the table shows"""


class SweepDisplay:
    """Shows the progress of a sweep, within a `with` block."""

    def __init__(self, seconds_of: Callable[[PlannedRun], float], width: int = 1) -> None:
        self._seconds_of, self._width = seconds_of, max(1, width)
        self._live: Live | None = None
        self._drawn = 0.0

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

    def update(self, state: SweepState) -> None:
        """Draw the table again, on a terminal and if it is time."""
        if self._live is not None and time.monotonic() - self._drawn >= SECONDS:
            self._drawn = time.monotonic()
            self._live.update(self._draw(state), refresh=True)

    def report(self, state: SweepState, run: PlannedRun, text: str) -> None:
        """Print a line about an event of a run."""
        counts = state.count()
        ended = counts["finished"] + counts["diverged"]
        line = f"[{ended}/{len(state.runs)}] {run.name}: {text}"
        left = self._left(state)
        if left and self._live is None:
            line += f"; about {duration(left)} left"
        if self._live is not None:
            self._live.console.print(Text(line))
        else:
            emit(line)

    def restore_terminal(self) -> None:
        """Show the cursor again, before the process ends at once."""
        if self._live is not None:
            write_bytes(1, SHOW_CURSOR)

    def _draw(self, state: SweepState) -> Group:
        counts = state.count()
        running = [run for run in state.having("running") if run.name in state.at_work]
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
        left = self._left(state)
        if left:
            words.append(f"about {duration(left)} left")
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        for run in running[:SHOWN]:
            epochs = finished_epochs(run.path)
            table.add_row(Text(run.name), f"epoch {epochs}/{run.experiment.epochs}")
        return Group(table, Text(" · ".join(words)))

    def _left(self, state: SweepState) -> float:
        """Seconds until the last run ends, at the pace of the runs that have ended here."""
        ended = [state.runs[name] for name in state.seconds]
        expected = sum(self._work(run, run.epochs_done) for run in ended)
        pace = sum(state.seconds.values()) / expected if expected else 1.0
        todo = []
        for run in state.having("waiting", "running"):
            done = finished_epochs(run.path) if run.name in state.at_work else run.epochs_done
            todo.append(self._work(run, done))
        # However many run at a time, the sweep lasts at least as long as its longest run.
        return pace * max(sum(todo) / self._width, max(todo, default=0.0))

    def _work(self, run: PlannedRun, done: int) -> float:
        """Estimated seconds of the epochs after the first `done`."""
        return self._seconds_of(run) * (1 - min(1.0, done / run.experiment.epochs))
