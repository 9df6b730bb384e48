"""Ctrl-C and termination: the first asks the run to save and stop, the second leaves at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from scalednl.train.devices import is_first_process

NOTICE = b"\nStopping after this step; the run can go on later. Once more to leave at once.\n"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Which signal asked for an end, if any."""

    signal: int = 0

    def __call__(self, number: int, _: FrameType | None) -> None:
        """Take note, or leave."""
        if self.signal:
            os._exit(128 + number)
        self.signal = number
        if is_first_process():
            # Not print: the signal may have come in the middle of one.
            os.write(2, NOTICE)


@contextmanager
def watching_signals() -> Iterator[StopRequest]:
    """Signals are noted while the block runs; a thread, which gets none, is left alone."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.signal(number, request) for number in SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
