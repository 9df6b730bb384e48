"""Runs on this machine, each in a process of its own: if one crashes, the others continue."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from scalednl.files import writing_to
from scalednl.lab.records.failure import LOG
from scalednl.lab.sweep.worker import Attempt, Job

POLL_SECONDS = 0.05
GPUS = Path("/proc/driver/nvidia/gpus")
CLOSE_SECONDS = 30.0
"""That runs have to save if the sweep itself fails"""
NAMES = {"SIGKILL": "SIGKILL, as when memory runs out", "SIGSEGV": "SIGSEGV, a crash"}


class LocalEngine:
    """Up to `jobs` processes at a time."""

    def __init__(self, jobs: int = 1, worker: str = "scalednl.lab.sweep.worker") -> None:
        self._jobs, self._worker = jobs, worker
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._slots: dict[str, int] = {}

    def room(self) -> int:
        """How many more jobs may be started now."""
        return self._jobs - len(self._processes)

    def slots(self) -> int:
        """How many jobs can run at a time."""
        return self._jobs

    def start(self, job: Job) -> None:
        """Start a process; its log goes into the run directory."""
        slot = min(set(range(self._jobs)) - set(self._slots.values()))
        folder = Path(job.path)
        with writing_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
            log = (folder / LOG).open("a")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", self._worker],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment(slot),
                # Ctrl-C on the terminal reaches this process, which passes it on once.
                start_new_session=True,
            )
        self._processes[job.name], self._slots[job.name] = process, slot
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            # Stays open: it closes when this process dies, and the worker stops then.
            process.stdin.write(json.dumps(asdict(job)) + "\n")
            process.stdin.flush()

    def wait(self, seconds: float) -> list[tuple[str, Attempt]]:
        """The jobs whose processes have ended; waits at most so long for the first of them."""
        until = time.monotonic() + seconds
        while True:
            over = [name for name, p in self._processes.items() if p.poll() is not None]
            if over or time.monotonic() >= until:
                return [(name, self._end(name)) for name in over]
            time.sleep(POLL_SECONDS)

    def at_work(self) -> set[str]:
        """Names of jobs whose processes run."""
        return set(self._processes)

    def interrupt(self, number: int, /) -> None:
        """Pass the signal on."""
        for process in self._processes.values():
            process.send_signal(number)

    def kill(self, names: Collection[str] | None = None, /) -> None:
        """End the processes of these jobs at once, or all processes."""
        # A copy: a second signal calls this while the main thread may start and end others.
        for name, process in list(self._processes.items()):
            if names is None or name in names:
                process.kill()

    def close(self) -> None:
        """End all processes that are left, after they had time to save."""
        self.interrupt(signal.SIGTERM)
        until = time.monotonic() + CLOSE_SECONDS
        while self._processes and time.monotonic() < until:
            self.wait(CLOSE_SECONDS)
        self.kill()

    def _end(self, name: str) -> Attempt:
        process = self._processes.pop(name)
        del self._slots[name]
        assert process.stdin is not None
        assert process.stdout is not None
        answer = process.stdout.read()
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            return Attempt(**json.loads(answer))
        except (ValueError, TypeError):
            return _unreported(process.returncode)


def _unreported(code: int) -> Attempt:
    """The result of a process that did not report one."""
    if code >= 0:
        return Attempt("failed", f"worker exited with code {code} without reporting a result")
    name = signal.Signals(-code).name
    if -code in (signal.SIGINT, signal.SIGTERM):
        return Attempt("interrupted", f"ended by {name}")
    return Attempt("failed", f"worker was killed ({NAMES.get(name, name)})")


def _environment(slot: int) -> dict[str, str]:
    """The environment of a worker: of several GPUs, it sees one."""
    environment = dict(os.environ)
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is not None:
        gpus = [gpu for gpu in listed.split(",") if gpu]
    else:
        gpus = [str(index) for index, _ in enumerate(GPUS.glob("*"))]
    if len(gpus) > 1:
        environment["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    return environment
