"""Standard output and error that may close, fill up or lack letters while work goes on."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, runtime_checkable


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
