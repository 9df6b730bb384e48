"""Ctrl-C and termination: the first signal requests a stop, the second ends the process.

A thread waits for signals; the interpreter wakes it as soon as one arrives. So the second signal
ends the process whatever the main thread does, which may be inside torch for hours. The handlers
themselves only store a number: they cannot fail, whatever has become of the terminal.
"""

import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""Ctrl-C, termination, and a terminal that closes"""


class StopRequest:
    """The signal that requested a stop; 0 if there was none."""

    signal: int = 0

    def __call__(self, number: int, _: FrameType | None = None) -> None:
        """Store the first signal."""
        self.signal = self.signal or number


@contextmanager
def watching_signals(
    notice: bytes, leave: Callable[[], None] | None = None
) -> Iterator[StopRequest]:
    """Catch signals while the block runs, in the main thread; others get no signals.

    `notice` is written when the first comes. When the second does, `leave` is called and the
    process ends. A signal that is ignored, as `nohup` ignores SIGHUP, stays so.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    caught = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    thread = threading.Thread(target=_watch, args=(receiver, request, notice, leave), daemon=True)
    thread.start()
    woken = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    before = {number: signal.signal(number, request) for number in caught}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(woken)
        sender.close()
        thread.join()
        receiver.close()


def _watch(
    receiver: socket.socket, request: StopRequest, notice: bytes, leave: Callable[[], None] | None
) -> None:
    """Wait for signals, one byte each, until the other end closes."""
    seen = 0
    while received := receiver.recv(16):
        for number in received:
            if number not in SIGNALS:
                continue
            seen += 1
            if seen == 1:
                request(number)
                write_bytes(2, notice)
                continue
            try:
                if leave is not None:
                    leave()
            finally:
                os._exit(128 + number)


def write_bytes(descriptor: int, content: bytes) -> None:
    """Write to a terminal or pipe that may be gone, or full because nobody reads it."""
    with suppress(OSError, ValueError):
        if select.select([], [descriptor], [], 0)[1]:
            os.write(descriptor, content)
