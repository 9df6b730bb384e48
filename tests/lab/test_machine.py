"""Threads and memory of this machine."""

import subprocess
import sys

import pytest

from scalednl.errors import UsageError
from scalednl.lab.machine import check_threads, current_bytes, peak_bytes

CHILD = "from scalednl.lab.machine import peak_bytes; print(peak_bytes('cpu'))"


def test_threads_are_limited_to_what_the_machine_can_use() -> None:
    """None and 1 are fine; 0 and very many are refused with the number that was given."""
    check_threads(None)
    check_threads(1)
    for threads in (0, 100_000):
        with pytest.raises(UsageError, match=f"--threads must be 1 to .* got {threads}$"):
            check_threads(threads)


def test_the_peak_of_a_started_process_is_its_own() -> None:
    """A large parent does not show in the peak of a process that it starts."""
    ballast = bytearray(400 << 20)
    ballast[:: 1 << 12] = b"x" * (len(ballast) >> 12)
    assert (peak_bytes("cpu") or 0) >= 400 << 20
    assert (current_bytes("cpu") or 0) >= 400 << 20
    child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, check=True)
    assert int(child.stdout) < 200 << 20
