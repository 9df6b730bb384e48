"""Runs on this machine: each in a fresh process, so that none can take the others down."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from scalednl.errors import CommandError
from scalednl.lab.records.failure import LOG
from scalednl.lab.sweep.jobs import End, Job

POLL_SECONDS = 0.05
GPUS = Path("/proc/driver/nvidia/gpus")
CLOSE_SECONDS = 30.0
"""For runs to save when the sweep itself cannot go on"""
NAMES = {"SIGKILL": "SIGKILL, as when memory runs out", "SIGSEGV": "SIGSEGV, a crash"}


class LocalEngine:
    """Up to `jobs` processes at a time."""

    def __init__(self, jobs: int = 1) -> None:
        self._jobs = jobs
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._slots: dict[str, int] = {}

    def room(self) -> int:
        """How many more jobs may be started now."""
        return self._jobs - len(self._processes)

    def slots(self) -> int:
        """How many jobs can be at work at a time."""
        return self._jobs

    def start(self, job: Job) -> None:
        """Begin a process; its log goes into the run directory."""
        slot = min(set(range(self._jobs)) - set(self._slots.values()))
        folder = Path(job.path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / LOG).open("a") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "scalednl.lab.sweep.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env=_environment(slot),
                    # Ctrl-C on the terminal is for us; we pass it on, once.
                    start_new_session=True,
                )
        except OSError as error:
            raise CommandError(
                f"{folder} cannot be written ({error.strerror}): choose another folder with --out"
            ) from error
        self._processes[job.name], self._slots[job.name] = process, slot
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            # Left open: when it closes, the worker knows that we are gone.
            process.stdin.write(job.as_json() + "\n")
            process.stdin.flush()

    def wait(self, seconds: float) -> list[tuple[str, End]]:
        """The names and ends of processes that have ended."""
        until = time.monotonic() + seconds
        while True:
            over = [name for name, p in self._processes.items() if p.poll() is not None]
            if over or time.monotonic() >= until:
                return [(name, self._end(name)) for name in over]
            time.sleep(POLL_SECONDS)

    def at_work(self) -> set[str]:
        """Names of jobs whose processes live."""
        return set(self._processes)

    def interrupt(self, number: int, /) -> None:
        """Pass the signal on."""
        for process in self._processes.values():
            process.send_signal(number)

    def kill(self) -> None:
        """End all processes at once."""
        for process in self._processes.values():
            process.kill()

    def close(self) -> None:
        """Leave no process behind: usually there is none, else each may save."""
        self.interrupt(signal.SIGTERM)
        until = time.monotonic() + CLOSE_SECONDS
        while self._processes and time.monotonic() < until:
            self.wait(CLOSE_SECONDS)
        self.kill()

    def _end(self, name: str) -> End:
        process = self._processes.pop(name)
        del self._slots[name]
        assert process.stdin is not None
        assert process.stdout is not None
        answer = process.stdout.read()
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            return End(**json.loads(answer))
        except (ValueError, TypeError):
            return _unsaid(process.returncode)


def _unsaid(code: int) -> End:
    """The end of a process that could not say how it ended."""
    if code >= 0:
        return End("failed", f"its process left with exit code {code} and no word")
    if -code in (signal.SIGINT, signal.SIGTERM):
        return End("interrupted", f"ended by {signal.Signals(-code).name}")
    name = signal.Signals(-code).name
    return End("failed", f"its process was killed ({NAMES.get(name, name)})")


def _environment(slot: int) -> dict[str, str]:
    """Ours; where there are several GPUs, a process sees one of them only."""
    environment = dict(os.environ)
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is not None:
        gpus = [gpu for gpu in listed.split(",") if gpu]
    else:
        gpus = [str(index) for index, _ in enumerate(GPUS.glob("*"))]
    if len(gpus) > 1:
        environment["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    return environment
