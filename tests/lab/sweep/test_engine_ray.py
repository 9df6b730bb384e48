"""The same runs on a real Ray cluster, started and stopped here.

`SCALEDNL_RAY_RUNS` sets how many runs the kill test has; `make soak` raises it.
"""

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from scalednl.errors import CommandError, UsageError
from scalednl.lab.records.failure import read_failure
from scalednl.lab.records.run import RunFolder
from scalednl.lab.sweep.engine_ray import RayEngine
from scalednl.lab.sweep.plan import PlannedRun
from scalednl.lab.sweep.schedule import SweepOutcome, sweep
from scalednl.lab.sweep.worker import Attempt, Job
from tests.lab.sweep.builders import (
    Notes,
    check_training_survives_a_kill,
    made,
    make_job,
    planned,
    train_with_pid,
    work,
)

RUNS = int(os.environ.get("SCALEDNL_RAY_RUNS", "10"))
MOST_KILLS = 2
"""Of one run"""


@pytest.fixture(scope="module", autouse=True)
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cluster of this machine; the engines of the tests find it running."""
    if find_spec("ray") is None:
        pytest.skip("needs Ray: pip install scalednl[sweep]")
    with closing(RayEngine(tmp_path_factory.mktemp("cluster"))):
        yield


def _sweep(
    out: Path,
    runs: list[PlannedRun],
    work: Callable[[Job], Attempt] = work,
    retries: int = 1,
) -> tuple[SweepOutcome, Notes]:
    notes = Notes()
    with closing(RayEngine(out, work=work)) as engine:
        assert engine.slots() >= 1
        return sweep(runs, engine, make_job, display=notes, retries=retries), notes


class Killer(threading.Thread):
    """Kills workers at random, each run at most so often."""

    def __init__(self, out: Path) -> None:
        super().__init__(daemon=True)
        self.out, self.kills = out, Counter[str]()
        self.over = threading.Event()

    def run(self) -> None:
        """Throw dice for every run at work, until it is over."""
        draw, seen = random.Random(0), set[str]()
        while not self.over.wait(0.02):
            for path in self.out.glob("*/pid"):
                with suppress(OSError, ValueError):
                    name, pid = path.parent.name, path.read_text()
                    if not pid or f"{name} {pid}" in seen:
                        continue
                    seen.add(f"{name} {pid}")
                    if self.kills[name] < MOST_KILLS and draw.random() < 0.5:
                        time.sleep(draw.uniform(0, 0.2))
                        os.kill(int(pid), signal.SIGKILL)
                        self.kills[name] += 1


def test_every_result_once_whatever_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Workers are killed at random; every run has its result, made and told exactly once."""
    names = [f"run{number:03}" for number in range(RUNS)]
    killer = Killer(tmp_path)
    killer.start()
    summary, notes = _sweep(tmp_path, planned(tmp_path, *names), retries=MOST_KILLS)
    killer.over.set()
    killer.join()
    kills = sum(killer.kills.values())
    assert kills > 0
    assert made(tmp_path) == names
    assert sorted(summary.finished) == names
    assert summary.exit_code == 0
    ends = [line for line in notes.said if ": failed, retrying" not in line]
    assert Counter(line.partition(":")[0] for line in ends) == Counter(names)
    said = capsys.readouterr()
    assert "worker died" not in said.out + said.err
    with capsys.disabled():
        print(f"\n{RUNS} runs, {kills} workers killed", end="")


def test_failures_are_told(tmp_path: Path) -> None:
    """Exceptions are retried, refusals are not; a run that kills its worker is given up at last."""
    names = ("a-flaky", "b-refused", "c-killed", "d-diverged")
    summary, _ = _sweep(tmp_path, planned(tmp_path, *names), retries=1)
    assert summary.finished == ("a-flaky",)
    assert summary.diverged == ("d-diverged",)
    assert set(summary.failed) == {"b-refused", "c-killed"}
    assert summary.failed["c-killed"].startswith("WorkerCrashedError")
    failure = read_failure(tmp_path / "c-killed")
    assert failure is not None
    assert failure.count == 2
    assert not list(tmp_path.glob(".sweep-*"))


def test_a_training_goes_on_after_its_worker_is_lost(tmp_path: Path) -> None:
    """Ray starts a real training again, which resumes from its checkpoint."""
    check_training_survives_a_kill(tmp_path, lambda runs: _sweep(tmp_path, runs, train_with_pid)[0])


def test_a_signal_reaches_the_runs(tmp_path: Path) -> None:
    """Runs in the cluster save and end, and those in line leave it."""
    names = [f"{letter}-long" for letter in "abcdef"]
    threading.Thread(target=_interrupt_when_begun, args=(tmp_path,)).start()
    summary, notes = _sweep(tmp_path, planned(tmp_path, *names))
    assert summary.exit_code == 130
    assert sorted(summary.left) == names
    assert any(line.endswith(": signal 2") for line in notes.said)
    assert any(line.endswith(": removed from the queue") for line in notes.said)


def _interrupt_when_begun(out: Path) -> None:
    while not list(out.glob("*/pid")):
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)


def test_a_lost_worker_that_still_holds_the_lock(tmp_path: Path) -> None:
    """Whoever comes after it waits until the lock opens."""
    (run,) = planned(tmp_path, "a")
    run.path.mkdir()
    held = RunFolder(run.path).locked()
    held.__enter__()
    timer = threading.Timer(4, held.__exit__, (None, None, None))
    timer.start()
    summary, notes = _sweep(tmp_path, [run])
    timer.join()
    assert summary.finished == ("a",)
    assert notes.said == ["a: made"]


def test_a_folder_that_workers_do_not_see(tmp_path: Path) -> None:
    """The sweep ends with a sentence that names the folder."""
    with closing(RayEngine(tmp_path / "out")) as engine:
        engine._mark.unlink()
        with pytest.raises(CommandError, match=r"cannot see .*out: choose a folder with --out"):
            sweep(planned(tmp_path / "out", "a"), engine, make_job, display=Notes())


def test_ray_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it there is a sentence that says how to get it."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(CommandError, match=r"pip install scalednl\[sweep\]"):
        RayEngine(tmp_path)


def test_a_cluster_too_small(tmp_path: Path) -> None:
    """A run that would never fit into a cluster of our own is refused."""
    with closing(RayEngine(tmp_path)) as engine:
        engine._cpus = 1000.0
        with pytest.raises(
            UsageError, match=r"--cpus must be at most .* what this machine has, got 1000"
        ):
            engine._check_size()


@pytest.mark.parametrize(
    ("mode", "advice"),
    [("", "set RAY_AUTH_MODE=token"), ("token", "must have the cluster's token, in ~/.ray/auth_t")],
)
def test_a_cluster_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, advice: str
) -> None:
    """The sentence has its address, and what to do about the token."""
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with closing(RayEngine(tmp_path)) as engine:

        def refuse(**_: object) -> None:
            raise ConnectionError("nobody there")

        monkeypatch.setattr(engine._ray, "init", refuse)
        with pytest.raises(CommandError, match="no Ray cluster answers at far:1: nobody") as said:
            engine._connect("far:1")
    assert advice in str(said.value)
