"""Small trainings, whole and interrupted, for tests."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from scalednl.lab.records.run import RunFolder
from scalednl.lab.training.loop import Trainer
from scalednl.lab.training.run import RunOutcome, run
from tests.lab.training.builders import SETTINGS, SMALL


def train(path: Path, experiment: Any = SMALL, settings: Any = SETTINGS) -> RunOutcome:
    """Train without a word."""
    return run(experiment, path, settings, quiet=True)


def weights_of(path: Path) -> dict[str, torch.Tensor]:
    """The final weights of a run."""
    return load_file(path / "weights.safetensors")


def assert_same(one: Path, two: Path) -> None:
    """The same weights to the bit, and the same records but for the times."""
    mine, theirs = weights_of(one), weights_of(two)
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        assert torch.equal(value, theirs[name]), name
    for first, second in zip(
        RunFolder(one).read_epochs(), RunFolder(two).read_epochs(), strict=True
    ):
        seconds, speed = first.seconds, first.images_per_second
        assert first == replace(second, seconds=seconds, images_per_second=speed)


def interrupt_after(monkeypatch: pytest.MonkeyPatch, steps: int, number: int) -> None:
    """Have this process sent a signal when the trainer has done so many steps."""
    real = Trainer.train_step
    done = 0

    def step(self: Trainer, batch: Any) -> torch.Tensor:
        nonlocal done
        done += 1
        if done == steps:
            os.kill(os.getpid(), number)
        return real(self, batch)

    monkeypatch.setattr(Trainer, "train_step", step)


def interrupted(path: Path, monkeypatch: pytest.MonkeyPatch, steps: int = 7) -> None:
    """Train, and press Ctrl-C after so many steps."""
    with monkeypatch.context() as patch:
        interrupt_after(patch, steps, signal.SIGINT)
        train(path)
