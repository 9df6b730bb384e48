"""A sweep as it goes: a table on a terminal, a line for what happens everywhere else."""

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from scalednl.lab.config import Experiment
from scalednl.lab.console import duration, emit
from scalednl.lab.records.run import finished_epochs
from scalednl.lab.sweep.board import Board
from scalednl.lab.sweep.plan import PlannedRun

SECONDS = 1.0
"""Between two looks at the runs"""
SHOW_CURSOR = b"\x1b[?25h\n"
SHOWN = 12
"""Running runs in the table"""


class Watch:
    """Tells whoever looks how a sweep goes; to be used in a `with`."""

    def __init__(self, seconds_of: Callable[[Experiment], float], width: int = 1) -> None:
        self._seconds_of, self._width = seconds_of, max(1, width)
        self._live: Live | None = None
        self._drawn = 0.0

    def __enter__(self) -> "Watch":
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

    def update(self, board: Board) -> None:
        """Draw the table again, if it is time and somebody watches."""
        if self._live is not None and time.monotonic() - self._drawn >= SECONDS:
            self._drawn = time.monotonic()
            self._live.update(self._draw(board), refresh=True)

    def say(self, board: Board, run: PlannedRun, text: str) -> None:
        """A line that stays."""
        counts = board.count()
        over = counts["finished"] + counts["diverged"]
        line = f"[{over}/{len(board.runs)}] {run.name}: {text}"
        left = self._left(board)
        if left and self._live is None:
            line += f"; about {duration(left)} left"
        if self._live is not None:
            self._live.console.print(Text(line))
        else:
            emit(line)

    def leave(self) -> None:
        """Give the terminal its cursor back; there is no time for more."""
        if self._live is not None:
            os.write(1, SHOW_CURSOR)

    def _draw(self, board: Board) -> Group:
        counts = board.count()
        running = [run for run in board.of("running") if run.name in board.at_work]
        in_line = counts["running"] - len(running)
        words = [
            f"{counts['finished'] + counts['diverged']} done",
            f"{len(running)} running",
            f"{counts['waiting'] + in_line} waiting",
            f"{counts['failed'] + counts['blocked']} failed",
        ]
        if counts["elsewhere"]:
            words.append(f"{counts['elsewhere']} running elsewhere")
        if counts["interrupted"]:
            words.append(f"{counts['interrupted']} stopped")
        left = self._left(board)
        if left:
            words.append(f"about {duration(left)} left")
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        for run in running[:SHOWN]:
            epochs = finished_epochs(run.path)
            table.add_row(Text(run.name), f"epoch {epochs}/{run.experiment.epochs}")
        return Group(table, Text(" · ".join(words)))

    def _left(self, board: Board) -> float:
        """Seconds until the last run ends, if those to come keep the pace of those that ended."""
        ended = [board.runs[name] for name in board.seconds]
        expected = sum(self._work(run, run.epochs_done) for run in ended)
        pace = sum(board.seconds.values()) / expected if expected else 1.0
        todo = []
        for run in board.of("waiting", "running"):
            done = finished_epochs(run.path) if run.name in board.at_work else run.epochs_done
            todo.append(self._work(run, done))
        # However many run at a time, the longest has to be waited for.
        return pace * max(sum(todo) / self._width, max(todo, default=0.0))

    def _work(self, run: PlannedRun, done: int) -> float:
        """Estimated seconds of the epochs after the first `done`."""
        return self._seconds_of(run.experiment) * (1 - min(1.0, done / run.experiment.epochs))
