"""An experiment of a second, for tests."""

from dataclasses import replace
from typing import Any

from scalednl.config import BlockConfig
from scalednl.lab.config import Experiment, PairsConfig, RunSettings

SETTINGS = RunSettings(device="cpu", threads=1, tensorboard=False)
SMALL = Experiment(
    "small",
    "pairs",
    "preresnet8",
    BlockConfig(norm_init=1.0),
    blocks=1,
    epochs=2,
    batch=32,
    schedule="one-cycle",
    milestones=(),
    augment=False,
    pairs=PairsConfig(width=16, patch=5, train_images=150, test_images=40),
)
OPTIONS = [
    *("--pairs.width", "16", "--pairs.patch", "5", "--batch", "32", "--threads", "1"),
    *("--pairs.train-images", "150", "--pairs.test-images", "40", "--device", "cpu"),
]
"""The same on the command line, after `pairs-scaled`"""


def small(**changes: Any) -> Experiment:
    """The experiment with something else."""
    return replace(SMALL, **changes)
