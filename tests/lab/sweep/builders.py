"""Runs that train nothing, for engines: the last word of a name decides how one behaves."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from scalednl.errors import UsageError
from scalednl.lab import heartbeat
from scalednl.lab.config import Experiment
from scalednl.lab.records.run import RunFolder, finished_epochs
from scalednl.lab.signals import watching_signals
from scalednl.lab.sweep.display import SweepDisplay
from scalednl.lab.sweep.plan import PlannedRun
from scalednl.lab.sweep.schedule import SweepOutcome, SweepState
from scalednl.lab.sweep.worker import Attempt, Job, train
from tests.lab.training.builders import SETTINGS, small

EPOCHS = 8


def make_job(run: PlannedRun) -> Job:
    """The job of a run, on one thread."""
    return Job.of(run, SETTINGS)


def work(job: Job) -> Attempt:
    """Make a result in a folder: one that is there stays, and making it twice is an error."""
    path = Path(job.path)
    with watching_signals(b"") as stop, RunFolder(path).locked():
        if (path / "made").exists():
            return Attempt("finished", "was there")
        (path / "pid").write_text(str(os.getpid()))
        end = _behave(job.name.rpartition("-")[2], path)
        until = time.monotonic() + (60 if job.name.endswith("-long") else 0.3)
        while time.monotonic() < until and not stop.signal:
            time.sleep(0.02)
        (path / "pid").unlink()
        if stop.signal:
            return Attempt("interrupted", f"signal {stop.signal}")
        (path / "made").touch(exist_ok=False)
    return end


def _behave(word: str, path: Path) -> Attempt:
    if word == "fail":
        raise RuntimeError("as asked")
    if word == "wordy":
        raise RuntimeError("x" * 200_000)
    if word == "flaky" and not (path / "tried").exists():
        (path / "tried").touch()
        raise RuntimeError("only the first time")
    if word == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "hang":
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        time.sleep(600)
    if word == "steady":
        heartbeat.SECONDS = 0.1
        for _ in range(60):
            heartbeat.beat()
            time.sleep(0.05)
    if word == "refused":
        raise UsageError("this cannot work")
    return Attempt("diverged" if word == "diverged" else "finished", "made")


def train_with_pid(job: Job) -> Attempt:
    """A real training that writes down its process."""
    (Path(job.path) / "pid").write_text(str(os.getpid()))
    return train(job)


class KillOnce(threading.Thread):
    """Kills the process of a training after its first epoch."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path = path

    def run(self) -> None:
        """Wait for the epoch."""
        while not finished_epochs(self.path):
            time.sleep(0.01)
        os.kill(int((self.path / "pid").read_text()), signal.SIGKILL)


def check_training_survives_a_kill(
    out: Path, sweep_of: Callable[[list[PlannedRun]], SweepOutcome]
) -> None:
    """Killed after its first epoch, a training is begun again and every epoch is there once."""
    run = PlannedRun("training", small(epochs=EPOCHS), out / "training")
    killer = KillOnce(run.path)
    killer.start()
    summary = sweep_of([run])
    killer.join()
    assert summary.finished == ("training",)
    result = RunFolder(run.path).read_result()
    assert result is not None
    assert result.sessions == 2
    assert [epoch.epoch for epoch in RunFolder(run.path).read_epochs()] == list(range(EPOCHS))


def planned(out: Path, *names: str, after: tuple[str, ...] = ()) -> list[PlannedRun]:
    """Runs that wait; the first of `after` must end before they begin."""
    return [PlannedRun(name, Experiment(), out / name, after=after) for name in names]


def made(out: Path) -> list[str]:
    """The names of the runs with a result."""
    return sorted(path.parent.name for path in out.glob("*/made"))


class Notes(SweepDisplay):
    """A display that only remembers what was reported."""

    def __init__(self) -> None:
        super().__init__(lambda _: 0.0)
        self.said: list[str] = []

    def begin(self, _: SweepState) -> None:
        """Nothing is printed."""

    def update(self, _: SweepState) -> None:
        """Nothing is printed."""

    def report(self, _: SweepState, run: PlannedRun, text: str) -> None:
        """Remember a line."""
        self.said.append(f"{run.name}: {text}")
