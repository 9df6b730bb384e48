"""The progress of a run: one line per epoch, and a bar on a terminal."""

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from scalednl.lab.console import duration, emit, speed_words
from scalednl.lab.records.run import Epoch


class Display:
    """Lines on standard output, and on a terminal a bar for the current epoch."""

    def __init__(self, epochs: int, quiet: bool = False) -> None:
        self._epochs, self._quiet = epochs, quiet
        self._bar: Progress | None = None

    def begin_epoch(self, epoch: int, steps: int, done: int) -> None:
        """Start the bar, with so many steps already done."""
        if self._quiet or not sys.stdout.isatty():
            return
        self._bar = Progress(
            TextColumn(f"epoch {epoch + 1}/{self._epochs}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[loss]}"),
            TimeRemainingColumn(),
            console=Console(),
            transient=True,
        )
        self._bar.add_task("", total=steps, completed=done, loss="")
        self._bar.start()

    def step(self, loss: float | None) -> None:
        """Advance the bar by a step."""
        if self._bar is not None:
            task = self._bar.tasks[0].id
            text = {} if loss is None else {"loss": f"loss {loss:.3f}"}
            self._bar.update(task, advance=1, **text)  # type: ignore[arg-type]

    def end_epoch(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def epoch(self, record: Epoch, seconds_left: float) -> None:
        """Print the line of a finished epoch."""
        if self._quiet:
            return
        width = len(str(self._epochs))
        error = record.test_error_pct
        test = "" if error is None else f"test {error:5.2f} %  "
        emit(
            f"epoch {record.epoch + 1:{width}}/{self._epochs}  "
            f"loss {record.train_loss:.3f}  train {record.train_error_pct:5.2f} %  "
            f"{test}lr {record.lr:.4g}  "
            f"{speed_words(record.images_per_second)}  {duration(seconds_left)} left"
        )

    def say(self, text: str) -> None:
        """Print any other line."""
        if not self._quiet:
            emit(text)
