"""What the commands print: lines, tables, durations, and progress of long work."""

import io
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, runtime_checkable

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


@runtime_checkable
class Stream(Protocol):
    """What is asked of standard output and error."""

    @property
    def encoding(self) -> str:
        """The name of its encoding."""

    def write(self, text: str, /) -> int:
        """Write."""

    def flush(self) -> None:
        """Flush."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""

    def fileno(self) -> int:
        """Its descriptor."""


class LastingStream(io.TextIOBase):
    """A stream whose reader may go away: what is written afterwards goes nowhere.

    A closed pipe, a full disk or a terminal that is gone are no reasons to stop a training.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or give the stream up."""
        try:
            return self._stream.write(text)
        except UnicodeEncodeError:
            encoding = self._stream.encoding
            return self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except (OSError, ValueError):
            discard(self._stream)
            return len(text)

    def flush(self) -> None:
        """Flush, or give the stream up."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            discard(self._stream)

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        try:
            return self._stream.isatty()
        except ValueError:
            return False

    def fileno(self) -> int:
        """The descriptor of the stream below."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream below."""
        return self._stream.encoding


def discard(stream: Stream) -> None:
    """Send what a stream still holds, and all that comes after it, nowhere."""
    with suppress(OSError, ValueError):
        descriptor = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, descriptor)
        finally:
            os.close(nowhere)


@contextmanager
def lasting_output() -> Iterator[None]:
    """Let the block continue whatever becomes of standard output and error."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_lasting, before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        sys.stdout, sys.stderr = before


def _lasting(stream: Any) -> Any:
    """None, where a program has no such stream, stays None; so does what rich has redirected.

    rich looks below its own stream for where to draw, and would not find it below another one:
    every drawing would be text to redirect, and be drawn again.
    """
    is_ready = isinstance(stream, LastingStream) or hasattr(stream, "rich_proxied_file")
    return stream if stream is None or is_ready else LastingStream(stream)


def open_standard_streams() -> None:
    """Give standard input, output and error a descriptor where they were closed.

    Otherwise the next file that is opened gets it, and what is meant for a terminal is written
    into that file. Letters that an encoding lacks are printed as escapes.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115
        stream = getattr(sys, name)
        if mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
