"""How far a run is: everything that a checkpoint must hold beside weights and optimizer."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from scalednl.lab.records.run import Epoch


@dataclass
class Progress:
    """Counted in whole steps; `epoch` and `step` say which comes next."""

    epoch: int = 0
    step: int = 0
    """Of this epoch"""
    global_step: int = 0
    seconds: float = 0.0
    """Of training and testing, over all sessions"""
    train_seconds: float = 0.0
    """Of training steps alone"""
    epoch_seconds: float = 0.0
    """Of this epoch's steps so far"""
    loss_sum: float = 0.0
    """Over this epoch's images so far, on all ranks"""
    wrong: int = 0
    """Of this epoch's images so far"""
    seen: int = 0
    sessions: int = 1
    """Processes that worked on this run"""
    epochs: list[Epoch] = field(default_factory=list)
    """The record of every finished epoch"""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        return asdict(self)

    def count_time(self, since: float) -> float:
        """Count a training step that began at `since`; the time now."""
        now = time.perf_counter()
        self.seconds += now - since
        self.train_seconds += now - since
        self.epoch_seconds += now - since
        return now

    def begin_epoch(self) -> None:
        """Forget the sums of the epoch before."""
        self.step = self.seen = self.wrong = 0
        self.loss_sum = self.epoch_seconds = 0.0
