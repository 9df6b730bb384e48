"""Measuring takes turns, and counts what is kept once."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from scalednl.lab.bench import measure
from scalednl.lab.bench.measure import (
    inference_step,
    interleaved,
    relative_error,
    training_step,
)
from scalednl.lab.counting import bytes_kept


def test_steps_take_turns_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warm-up runs come first and are not counted; then each step in turn, untimed and timed."""
    monkeypatch.setattr(measure, "SETTLE", 0.0)
    calls: list[str] = []
    steps = {name: (lambda name=name: calls.append(name)) for name in "ab"}
    rounds = interleaved(steps, repeats=3, warm_up=2)
    assert "".join(calls) == "aabb" + "aabb" * 3
    assert [list(one) for one in rounds] == [["a", "b"]] * 3


def test_a_short_step_runs_until_the_cores_are_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Untimed, as often as fits into the time to settle; a long one runs once."""
    clock = iter(range(100))
    monkeypatch.setattr(measure, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(measure, "SETTLE", 3.0)
    calls: list[str] = []
    (found,) = interleaved({"": lambda: calls.append("")}, repeats=1, warm_up=0)
    assert len(calls) == 3 + 1
    assert found[""].seconds == 1


def test_a_gpu_is_timed_by_its_own_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the device asked for: wait until it is idle, start, step, end, and wait for the end."""
    log: list[str] = []

    class Event:
        """Notes what is asked of it."""

        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            """On the stream of the current device."""
            log.append("record")

        def synchronize(self) -> None:
            """Wait."""
            log.append("wait")

        def elapsed_time(self, end: object) -> float:
            """Milliseconds."""
            assert end is not self
            return 250.0

    @contextmanager
    def device(name: str) -> Iterator[None]:
        log.append(name)
        yield

    monkeypatch.setattr(measure, "SETTLE", 0.0)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: log.append("idle"))
    steps = {"": lambda: log.append("step")}
    (found,) = interleaved(steps, repeats=1, warm_up=1, device="cuda:1")
    assert found[""].seconds == 0.25
    assert log == ["step", "cuda:1", "step", "idle", "record", "step", "record", "wait"]


class _Square(nn.Module):
    """w x^2: keeps x twice in one storage, x^2, and its own weight."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        """w x^2."""
        return self.w * (x * x)


def test_kept_bytes_are_distinct_storages_without_parameters() -> None:
    """A tensor saved twice counts once, a parameter not at all."""
    assert bytes_kept(_Square(), torch.randn(10, requires_grad=True)) == 2 * 10 * 4


class _Watched(nn.Module):
    """relu, which keeps its own result; remembers it weakly."""

    def forward(self, x: Tensor) -> Tensor:
        """relu(x)."""
        z = x.relu()
        self.result = weakref.ref(z)
        return z


def test_counting_kept_bytes_leaves_nothing_behind() -> None:
    """A result that is kept for backward is freed after it was counted."""
    module = _Watched()
    assert bytes_kept(module, torch.randn(10, requires_grad=True)) == 10 * 4
    gc.collect()
    assert module.result() is None


def test_steps_run_what_they_say() -> None:
    """A training step gives gradients for x and the weights, an inference step no graph."""
    x = torch.full((3,), 2.0, requires_grad=True)
    gradients = training_step(_Square(), x, torch.ones(3))()
    assert isinstance(gradients, tuple)
    assert torch.equal(gradients[0], torch.full((3,), 4.0))
    assert gradients[1].item() == 12.0
    z = inference_step(_Square(), x)()
    assert isinstance(z, Tensor)
    assert not z.requires_grad


def test_relative_error() -> None:
    """The error is relative to the truth."""
    error = relative_error(torch.tensor([3.0, 4.4]), torch.tensor([3.0, 4.0]))
    assert error == pytest.approx(0.08)
