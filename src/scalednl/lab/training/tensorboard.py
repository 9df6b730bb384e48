"""TensorBoard events of a run."""

from pathlib import Path
from typing import Any

from scalednl.lab.records.run import Epoch

CURVES = ("train_loss", "train_error_pct", "test_loss", "test_error_pct", "lr", "images_per_second")


class Events:
    """One point a curve and epoch; a run that goes on overwrites what it does again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None

    def epoch(self, record: Epoch, step: int) -> None:
        """The points of a finished epoch."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self._folder), purge_step=step)
        for name in CURVES:
            value = getattr(record, name)
            if value is not None:
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Everything on the disk."""
        if self._writer is not None:
            self._writer.close()
