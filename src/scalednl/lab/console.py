"""What the commands print: lines, tables, durations, and progress of long work."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
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


def notice(text: str) -> None:
    """Print a sentence beside the output proper."""
    print(f"scalednl: {text}", file=sys.stderr, flush=True)


def emit(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def duration(seconds: float) -> str:
    """Seconds in words, to two units."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min"
    return f"{hours // 24} d {hours % 24:02} h"


def speed_words(speed: float) -> str:
    """A speed in words, with a digit more where it is slow."""
    return f"{speed:,.{int(speed < 10)}f} images/s"


def counted(count: int, thing: str) -> str:
    """A number of things: "1 epoch", "2 epochs"."""
    return f"{count:,} {thing}{'s' * (count != 1)}"


def short_bytes(size: float) -> str:
    """A number of bytes in KiB, MiB or GiB."""
    unit, scale = next(
        (unit, scale)
        for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
        if size >= scale or unit == "KiB"
    )
    value = size / scale
    return f"{value:.0f} {unit}" if value >= 100 or unit == "KiB" else f"{value:.1f} {unit}"


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, and an empty line after it."""
    print(f"{table_text(head, rows)}\n", flush=True)


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with words to the left and numbers to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    right = [i > 0 and all(_numeric(row[i]) for row in rows) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        return f"| {' | '.join(cells)} |"

    rule = "|".join("-" * (w + 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True))
    return "\n".join([line(head), f"|{rule}|", *(line(row) for row in rows)])


def _numeric(cell: str) -> bool:
    return not cell or cell[0] in "0123456789x-<"
