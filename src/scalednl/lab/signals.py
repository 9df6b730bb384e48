"""Ctrl-C and termination: the first signal requests a stop, the second ends the process."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """The signal that requested a stop; 0 if there was none."""

    signal: int = 0

    def __init__(self, notice: bytes = b"", leave: Callable[[], None] | None = None) -> None:
        self._notice, self._leave = notice, leave

    def __call__(self, number: int, _: FrameType | None) -> None:
        """Store the first signal; end the process at the second."""
        if self.signal:
            if self._leave is not None:
                self._leave()
            os._exit(128 + number)
        self.signal = number
        # Not print: the signal may have come in the middle of one.
        os.write(2, self._notice)


@contextmanager
def watching_signals(
    notice: bytes, leave: Callable[[], None] | None = None
) -> Iterator[StopRequest]:
    """Catch signals while the block runs, in the main thread; others get no signals.

    `notice` is written when the first comes, `leave` is called when the second does.
    """
    request = StopRequest(notice, leave)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.signal(number, request) for number in SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
