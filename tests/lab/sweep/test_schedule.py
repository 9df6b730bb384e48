"""The state machine of a sweep, with an engine that does as it is told."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from scalednl.errors import CommandError
from scalednl.lab.records.failure import read_failure
from scalednl.lab.records.runs import State
from scalednl.lab.sweep.plan import PlannedRun
from scalednl.lab.sweep.schedule import Engine, SweepOutcome, SweepState, sweep
from scalednl.lab.sweep.worker import Attempt, Job
from tests.lab.sweep.builders import Notes, make_job, planned


class Scripted:
    """An engine of one place: every attempt at a run ends with the next word of its script."""

    def __init__(self, **scripts: str) -> None:
        self.scripts = {name: script.split() for name, script in scripts.items()}
        self.started: list[str] = []
        self._running: list[str] = []

    def room(self) -> int:
        """One at a time."""
        return 1 - len(self._running)

    def slots(self) -> int:
        """One."""
        return 1

    def start(self, job: Job) -> None:
        """Note the job."""
        self.started.append(job.name)
        self._running.append(job.name)

    def wait(self, _: float) -> list[tuple[str, Attempt]]:
        """End it at once."""
        ended = [(name, self.scripts[name].pop(0)) for name in self._running]
        self._running = []
        return [(name, Attempt(word, f"it {word}")) for name, word in ended]  # type: ignore[arg-type]

    def at_work(self) -> set[str]:
        """What has started."""
        return set(self._running)

    def interrupt(self, _: int, /) -> None:
        """Nothing to do."""

    def kill(self, _: object = None, /) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


def _sweep(
    runs: list[PlannedRun], retries: int = 1, **scripts: str
) -> tuple[SweepOutcome, list[str]]:
    engine = Scripted(**scripts)
    assert isinstance(engine, Engine)
    return sweep(runs, engine, make_job, display=Notes(), retries=retries), engine.started


def test_failures_are_retried_as_often_as_asked(tmp_path: Path) -> None:
    """One more attempt after a failure or a stop, none after a refusal; the last reason counts."""
    runs = planned(tmp_path, "a", "b", "c")
    outcome, started = _sweep(runs, a="failed finished", b="failed interrupted", c="refused")
    assert Counter(started) == {"a": 2, "b": 2, "c": 1}
    assert outcome.finished == ("a",)
    assert outcome.failed == {"b": "stopped: it interrupted", "c": "it refused"}
    assert read_failure(tmp_path / "a") is None
    failure = read_failure(tmp_path / "b")
    assert failure is not None
    assert failure.count == 2
    assert outcome.exit_code == 1


def test_a_machine_that_cannot_train_ends_the_sweep(tmp_path: Path) -> None:
    """No run is tried after that."""
    with pytest.raises(CommandError, match="it unusable"):
        _sweep(planned(tmp_path, "a", "b"), a="unusable", b="finished")


def test_runs_start_in_their_turns(tmp_path: Path) -> None:
    """Smaller turns first, but never before what they need."""
    a, b, c = planned(tmp_path, "a", "b", "c")
    runs = [replace(a, turn=(2, 0)), replace(b, turn=(1, 0), after=("a",)), replace(c, turn=(1, 1))]
    outcome, started = _sweep(runs, a="finished", b="diverged", c="finished")
    assert started == ["c", "a", "b"]
    assert (outcome.exit_code, outcome.diverged) == (0, ("b",))


def test_what_needs_a_lost_run_is_blocked_all_the_way(tmp_path: Path) -> None:
    """The reason names the run that is missing, and how it was lost."""
    a, b, c = planned(tmp_path, "a", "b", "c")
    runs = [replace(c, after=("b",)), replace(b, after=("a",)), a]
    outcome, started = _sweep(runs, retries=0, a="diverged")
    assert started == ["a"]
    assert outcome.blocked == {"b": "needs a, which diverged", "c": "needs b, which is blocked"}


def test_a_finished_run_is_handed_over_if_something_is_missing(tmp_path: Path) -> None:
    """`is_complete` decides; the time of such a run does not set the pace."""
    a, b = (replace(run, state="finished") for run in planned(tmp_path, "a", "b"))
    state = SweepState([a, b], lambda run: run.name != "b")
    assert [run.name for run in state.having("waiting")] == ["b"]
    b.path.mkdir()
    (b.path / "epochs.jsonl").write_text("{}\n" * b.experiment.epochs)
    state.set_at_work({"b"})
    state.change(b, "finished")
    assert state.seconds == {}
    fresh = SweepState(planned(tmp_path, "x"))
    fresh.set_at_work({"x"})
    fresh.change(fresh.runs["x"], "finished")
    assert list(fresh.seconds) == ["x"]


def test_the_plan_gives_the_first_status(tmp_path: Path) -> None:
    """Running is elsewhere, damaged has failed, all that can be trained waits."""
    runs = [replace(run, state=run.name) for run in planned(tmp_path, *get_args(State))]  # type: ignore[arg-type]
    state = SweepState(runs)
    assert [run.name for run in state.having("waiting")] == ["waiting", "interrupted", "failed"]
    assert [run.name for run in state.having("elsewhere")] == ["running"]
    assert state.outcome(15).exit_code == 143
    assert set(state.outcome(0).left) == {"waiting", "interrupted", "failed", "running"}
