"""The first signal requests a stop, the second ends the process."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from scalednl.lab.signals import StopRequest, watching_signals

STUCK = """
import ctypes, os, signal
from scalednl.lab.signals import watching_signals, write_bytes

with watching_signals(b"first\\n", lambda: write_bytes(2, b"leaving\\n")):
    os.kill(os.getpid(), signal.SIGINT)
    os.write(1, b"stuck\\n")
    lock, library = ctypes.create_string_buffer(256), ctypes.CDLL(None)
    for _ in range(2):
        library.pthread_mutex_lock(lock)
"""
"""Locks a mutex twice: the main thread never comes back to the interpreter"""


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


def test_the_second_signal_ends_a_process_that_is_stuck() -> None:
    """Whatever the main thread waits for; the code is that of the second signal."""
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "stuck\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert errors == "first\nleaving\n"


def test_a_notice_that_nobody_can_read_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing it fails as on a closed pipe; the request is stored all the same."""
    written = []

    def broken(descriptor: int, _: bytes) -> int:
        written.append(descriptor)
        raise BrokenPipeError

    with watching_signals(b"stopping\n") as stop:
        monkeypatch.setattr(os, "write", broken)
        os.kill(os.getpid(), signal.SIGINT)
    assert stop.signal == signal.SIGINT
    assert written == [2]


def test_a_full_pipe_does_not_hold_up_the_second_signal() -> None:
    """As with `2>&1 | less` that nobody scrolls: the notice is left out."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while os.write(writer, b"x" * 4096):
            pass
    os.set_blocking(writer, True)
    command = [sys.executable, "-c", STUCK]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writer, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "stuck\n"
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    finally:
        process.kill()
        process.stdout.close()
        os.close(reader)
        os.close(writer)
    assert process.returncode == 128 + signal.SIGTERM


def test_an_ignored_signal_stays_ignored() -> None:
    """As `nohup` ignores SIGHUP; otherwise a terminal that closes requests a stop."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with watching_signals(b"") as stop:
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop.signal == 0
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with watching_signals(b"") as stop:
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop.signal == signal.SIGHUP
    finally:
        signal.signal(signal.SIGHUP, before)


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
