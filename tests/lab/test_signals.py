"""The first signal requests a stop, the second ends the process."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from scalednl.lab.signals import StopRequest, watching_signals

SECOND = """
import os, signal
from scalednl.lab.signals import watching_signals

with watching_signals(b"first\\n", lambda: os.write(2, b"leaving\\n")):
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    os.write(2, b"never\\n")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_stored_and_noticed(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    """The block continues and sees which signal came; afterwards the old handlers are back."""
    before = signal.getsignal(number)
    with watching_signals(b"stopping\n") as stop:
        assert stop.signal == 0
        os.kill(os.getpid(), number)
        assert stop.signal == number
    assert signal.getsignal(number) is before
    assert capfd.readouterr().err == "stopping\n"


def test_the_second_signal_ends_the_process() -> None:
    """The code is that of the second signal, after the notice and the last call."""
    ended = subprocess.run([sys.executable, "-c", SECOND], capture_output=True, text=True)
    assert ended.returncode == 128 + signal.SIGTERM
    assert ended.stderr == "first\nleaving\n"


def test_handlers_return_after_an_error() -> None:
    """An exception in the block leaves no handler behind."""
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="inside"), watching_signals(b""):
        raise ValueError("inside")
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_get_no_signals() -> None:
    """Only the main thread may set handlers; elsewhere the request stays empty."""
    before, found = signal.getsignal(signal.SIGINT), list[StopRequest]()

    def watch() -> None:
        with watching_signals(b"") as stop:
            assert signal.getsignal(signal.SIGINT) is before
            found.append(stop)

    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()
    assert [stop.signal for stop in found] == [0]
