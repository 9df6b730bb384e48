"""How far a sweep is, by the epochs of its runs."""

from pathlib import Path

import pytest

from scalednl.lab.sweep.progress import SweepProgress
from scalednl.lab.sweep.schedule import Start, SweepState
from tests.lab.sweep.builders import planned

EPOCHS = 164
"""Of every run here; each is estimated to take a second"""


class Clock:
    """A clock that stands still until it is set."""

    now = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def _epochs(out: Path, name: str, count: int) -> None:
    (out / name).mkdir(exist_ok=True)
    (out / name / "epochs.jsonl").write_text("{}\n" * count)


def _progress(out: Path, *names: str, width: int = 1) -> tuple[SweepState, SweepProgress, Clock]:
    """A sweep whose first run has just started."""
    clock = Clock()
    runs = planned(out, *names)
    state = SweepState(runs)
    state.change(runs[0], "running")
    state.set_at_work({runs[0].name})
    state.started[runs[0].name] = Start(clock.now, 0)
    return state, SweepProgress(lambda _: float(EPOCHS), width, clock), clock


def test_time_left_follows_the_epochs_before_any_run_has_ended(tmp_path: Path) -> None:
    """Epochs that take three times as long as estimated triple what is left, waiting runs too."""
    state, progress, clock = _progress(tmp_path, "a", "b")
    assert progress.look(state) == []
    assert progress.left(state) == pytest.approx(2 * EPOCHS)
    _epochs(tmp_path, "a", 10)
    clock.now += 30
    assert [run.name for run in progress.look(state)] == ["a"]
    assert progress.epochs(state.runs["a"]) == 10
    assert progress.left(state) == pytest.approx(3 * (EPOCHS - 10 + EPOCHS))
    assert progress.look(state) == []


def test_time_left_falls_within_an_epoch_and_rises_when_it_is_late(tmp_path: Path) -> None:
    """It is never frozen: each second is one less, until the epoch takes longer than expected."""
    state, progress, clock = _progress(tmp_path, "a")
    progress.look(state)
    clock.now += 0.5
    assert progress.left(state) == pytest.approx(EPOCHS - 0.5)
    clock.now += 1.5
    assert progress.left(state) == pytest.approx(2 * EPOCHS - 2)


def test_epochs_before_the_start_do_not_count_for_the_pace(tmp_path: Path) -> None:
    """A run that is resumed, or tried again, has the pace of what it did since."""
    state, progress, clock = _progress(tmp_path, "a")
    _epochs(tmp_path, "a", 64)
    progress.look(state)
    state.started["a"] = Start(clock.now + 1, 64)
    clock.now += 5
    _epochs(tmp_path, "a", 66)
    progress.look(state)
    assert progress.left(state) == pytest.approx(2 * (EPOCHS - 66))


def test_runs_that_have_ended_set_the_pace_too(tmp_path: Path) -> None:
    """One that took twice its estimate doubles that of the others."""
    state, progress, _ = _progress(tmp_path, "a", "b", "c", width=2)
    state.change(state.runs["a"], "finished")
    state.seconds["a"] = 2.0 * EPOCHS
    state.set_at_work(set())
    assert progress.left(state) == pytest.approx(2 * EPOCHS)


def test_the_longest_run_is_waited_for(tmp_path: Path) -> None:
    """More places than runs make none of them quicker."""
    state = SweepState(planned(tmp_path, "a", "b"))
    assert SweepProgress(lambda _: 10.0, width=8).left(state) == 10.0
