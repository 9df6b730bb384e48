"""The three trainings of the demonstration, and their live table."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from scalednl.errors import CommandError
from scalednl.lab.config import Experiment, RunSettings
from scalednl.lab.console import duration, emit
from scalednl.lab.recipes import find_recipe
from scalednl.lab.records.run import Epoch, Result, RunFolder
from scalednl.lab.training.run import run

RECIPES = {"pairs-plain": "no block", "pairs-softmax": "softmax", "pairs-scaled": "scaled"}
CHANCE = 75.0
"""Error in % of a guess among the 4 classes of `pairs`"""
BAR = 14
WIDE = 72
"""Columns of a terminal that the complete table needs"""


@dataclass(frozen=True)
class Trained:
    """The run directories with blocks, and the signal that interrupted the trainings."""

    with_blocks: list[Path]
    signal: int = 0


def train_all(out: Path, threads: int | None, console: Console) -> Trained:
    """Train what is not finished in the folder yet, one after the other."""
    settings = RunSettings(threads=threads, tensorboard=False)
    runs = {name: (find_recipe(name), RunFolder(out / name)) for name in RECIPES}
    with _watching(runs, console):
        for name, (experiment, folder) in runs.items():
            if not console.is_terminal:
                emit(f"{RECIPES[name]}:")
            outcome = run(experiment, folder.path, settings, quiet=console.is_terminal)
            if outcome.status == "interrupted":
                return Trained([], outcome.signal)
    if not console.is_terminal:
        console.print(_table(runs, wide=_is_wide(console)))
    return Trained([folder.path for experiment, folder in runs.values() if experiment.blocks])


@contextmanager
def _watching(runs: dict[str, tuple[Experiment, RunFolder]], console: Console) -> Iterator[None]:
    """Show the table while they train, on a terminal."""
    if not console.is_terminal:
        yield
        return
    with Live(
        get_renderable=lambda: _table(runs, wide=_is_wide(console)),
        console=console,
        refresh_per_second=3,
    ) as live:
        yield
        live.refresh()


def _table(runs: dict[str, tuple[Experiment, RunFolder]], *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    columns = ("block", "epoch", "test error", "", "images/s", "time")
    for column in columns if wide else columns[:3]:
        left = column in ("block", "")
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    for name, (experiment, folder) in runs.items():
        row = _row(RECIPES[name], experiment, folder)
        table.add_row(*(row if wide else row[:3]))
    return table


def _is_wide(console: Console) -> bool:
    return console.width >= WIDE


def _row(words: str, experiment: Experiment, folder: RunFolder) -> list[str]:
    """The row of a training, from its run directory."""
    try:
        epochs, result = folder.read_epochs(), folder.read_result()
    except CommandError:
        epochs, result = [], None
    if not epochs:
        return [words, f"0/{experiment.epochs}", "", "", "", ""]
    last = epochs[-1]
    error = last.test_error_pct or 0.0
    full, empty = ("█", "·") if _can_draw() else ("#", ".")
    filled = round(BAR * error / 100)
    note = " chance" if abs(error - CHANCE) < 5 else ""
    return [
        words,
        f"{last.epoch + 1}/{experiment.epochs}",
        f"{error:.2f} %",
        full * filled + empty * (BAR - filled) + note,
        f"{_speed(epochs, result):,.0f}",
        duration(last.seconds),
    ]


def _speed(epochs: Sequence[Epoch], result: Result | None) -> float:
    """Images per second over the whole training, as the page has it, or of its last epoch."""
    if result is not None and result.images_per_second is not None:
        return result.images_per_second
    return epochs[-1].images_per_second


def _can_draw() -> bool:
    encoding = sys.stdout.encoding or "ascii"
    try:
        "█·".encode(encoding)
    except (UnicodeError, LookupError):
        return False
    return True
