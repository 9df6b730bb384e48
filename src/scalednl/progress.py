"""Long work shown to whoever watches: a bar on a terminal, a line now and then in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

Advance = Callable[[int], None]
SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def track(what: str, total: int | None = None, *, in_bytes: bool = False) -> Iterator[Advance]:
    """Show work of `total` parts; what it yields is called with the number of parts just done."""
    if sys.stderr.isatty():
        with _bar(total, in_bytes) as bar:
            task = bar.add_task(what, total=total)
            yield lambda parts: bar.update(task, advance=parts)
    else:
        yield _lines(what, total, in_bytes)


def _bar(total: int | None, in_bytes: bool) -> Progress:
    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}")]
    if total is not None:
        count = DownloadColumn() if in_bytes else MofNCompleteColumn()
        columns += [BarColumn(), count, TimeRemainingColumn()]
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _lines(what: str, total: int | None, in_bytes: bool) -> Advance:
    done, last = 0, time.monotonic()

    def advance(parts: int) -> None:
        nonlocal done, last
        done += parts
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            amount = f"{done / 1e6:.0f} MB" if in_bytes else f"{done:,}"
            share = f" ({done / total:.0%})" if total else ""
            print(f"{what}: {amount}{share}", file=sys.stderr, flush=True)

    return advance
