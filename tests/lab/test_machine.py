"""Threads and memory of this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalednl.errors import UsageError
from scalednl.lab import machine
from scalednl.lab.machine import AUTOGROUP, check_threads, current_bytes, peak_bytes

CHILD = "from scalednl.lab.machine import peak_bytes; print(peak_bytes('cpu'))"


def test_threads_are_limited_to_what_the_machine_can_use() -> None:
    """None and 1 are fine; 0 and very many are refused with the number that was given."""
    check_threads(None)
    check_threads(1)
    for threads in (0, 100_000):
        with pytest.raises(UsageError, match=f"--threads must be 1 to .* got {threads}$"):
            check_threads(threads)


def test_a_session_keeps_its_niceness() -> None:
    """What begins a session of its own shares the processor as politely as its parent."""
    if not AUTOGROUP.is_file():
        pytest.skip(f"{AUTOGROUP} is missing: Linux with CONFIG_SCHED_AUTOGROUP has it")
    code = (
        "from scalednl.lab.machine import AUTOGROUP, keep_niceness; first = AUTOGROUP.read_text(); "
        "keep_niceness(); print(first.split()[-1], AUTOGROUP.read_text().split()[-1])"
    )
    command = ["nice", "-n", "7", sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
    assert found.stdout.split() == ["0", str(min(19, os.nice(0) + 7))], found.stderr


def test_the_peak_of_a_started_process_is_its_own() -> None:
    """A large parent does not show in the peak of a process that it starts."""
    ballast = bytearray(400 << 20)
    ballast[:: 1 << 12] = b"x" * (len(ballast) >> 12)
    assert (peak_bytes("cpu") or 0) >= 400 << 20
    assert (current_bytes("cpu") or 0) >= 400 << 20
    child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, check=True)
    assert int(child.stdout) < 200 << 20


def test_all_threads_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds that they ran and waited, together; unknown where the system does not count."""
    for thread, counts in (("1", "3000000000 1000000000 7"), ("2", "1000000000 500000000 9")):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(counts)
    monkeypatch.setattr(machine, "TASKS", tmp_path)
    assert machine.core_seconds() == (4.0, 1.5)
    monkeypatch.setattr(machine, "TASKS", tmp_path / "nowhere")
    assert machine.core_seconds() is None
