"""Signs of life, and who misses them."""

from pathlib import Path

import pytest

from scalednl.lab import heartbeat
from scalednl.lab.heartbeat import Watch, beat, beating
from tests.lab.training.builders import SMALL


class Clock:
    """A clock that stands still until it is set."""

    now = 100.0

    def monotonic(self) -> float:
        """The time that was set."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """In the place of the module's own clock."""
    found = Clock()
    monkeypatch.setattr(heartbeat, "time", found)
    return found


def test_a_beat_touches_the_file_now_and_then(tmp_path: Path, clock: Clock) -> None:
    """Only inside `beating`, at most every so many seconds; afterwards the file is gone."""
    path = tmp_path / "alive"
    beat()
    with beating(path):
        assert path.is_file()
        path.unlink()
        clock.now += heartbeat.SECONDS / 2
        beat()
        assert not path.exists()
        clock.now += heartbeat.SECONDS
        beat()
        assert path.is_file()
    beat()
    assert not path.exists()
    with beating(tmp_path / "no" / "folder"):
        beat()


def test_silence_is_noticed_by_name(tmp_path: Path, clock: Clock) -> None:
    """Work counts from when it is first seen; a change of its file, or its end, starts anew."""
    work = {name: tmp_path / name for name in ("a", "b")}
    watch = Watch(10)
    assert watch.silent(work) == []
    clock.now += 9
    work["a"].touch()
    assert watch.silent(work) == []
    clock.now += 1
    assert watch.silent(work) == ["b"]
    watch.forget(["b"])
    assert watch.silent(work) == []
    clock.now += 9
    assert watch.silent(work) == ["a"]
    assert watch.silent({"b": work["b"]}) == []
    assert watch.silent(work) == [], "a was away"


def test_batches_are_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training, tests and scores of attention all go over batches."""
    from scalednl.lab.training.evaluate import test_batches as batches_of_tests
    from scalednl.lab.training.setup import experiment_data

    monkeypatch.setattr(heartbeat, "SECONDS", 0.0)
    batches, path = batches_of_tests(SMALL, experiment_data(SMALL, None)), tmp_path / "alive"
    with beating(path):
        for _ in batches.epoch(0):
            assert path.is_file()
            path.unlink()
