"""What TensorBoard shows of a run: its curves, and its options as hyper-parameters."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scalednl.lab.config import Experiment
from scalednl.lab.records.run import Epoch

CURVES = ("train_loss", "train_error_pct", "test_loss", "test_error_pct", "lr", "images_per_second")


class Events:
    """Writes the event file of a run; the file begins with the first epoch.

    TensorBoard cannot write into every folder, such as one whose name is not UTF-8. No training
    ends because of that: it is reported once, and nothing more is written.
    """

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self._folder, self._experiment = folder, experiment
        self._writer: Any = None
        self._end: Any = None
        self._is_broken = False

    def add(self, epoch: Epoch, step: int) -> None:
        """One point per curve; a resumed run overwrites the points of steps it repeats."""
        self._try(lambda: self._add(epoch, step))

    def finish(self) -> None:
        """Mark the run as complete in the table of hyper-parameters."""
        if self._writer is not None:
            self._try(lambda: self._writer.file_writer.add_summary(self._end))

    def close(self) -> None:
        """Flush the events."""
        if self._writer is not None:
            self._writer.close()

    def _add(self, epoch: Epoch, step: int) -> None:
        if self._writer is None:
            self._open(step)
        for name in CURVES:
            value = getattr(epoch, name)
            if value is not None:
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def _open(self, step: int) -> None:
        """Open a file and begin it with the hyper-parameters.

        The list of all hyper-parameters is left out: TensorBoard collects it from all runs that it
        shows, while one of them would stand for the others.
        """
        from torch.utils.tensorboard import SummaryWriter
        from torch.utils.tensorboard.summary import hparams

        self._writer = SummaryWriter(str(self._folder), purge_step=step)
        _, start, self._end = hparams(hyper_parameters(self._experiment), {})
        self._writer.file_writer.add_summary(start)

    def _try(self, write: Callable[[], object]) -> None:
        if self._is_broken:
            return
        try:
            write()
        except OSError:
            raise
        except Exception as error:
            self._is_broken = True
            warnings.warn(f"TensorBoard events are not written: {error}", stacklevel=3)


def hyper_parameters(experiment: Experiment) -> dict[str, bool | int | float | str]:
    """All options of an experiment by the names that the command line has for them."""
    values = experiment.as_dict()
    inner = {name: part for name, part in values.items() if isinstance(part, dict)}
    flat = {name: value for name, value in values.items() if name not in inner}
    flat |= {f"{name}.{key}": value for name, part in inner.items() for key, value in part.items()}
    plain = (bool, int, float, str)
    return {name: value if isinstance(value, plain) else str(value) for name, value in flat.items()}
