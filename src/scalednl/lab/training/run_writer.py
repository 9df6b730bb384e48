"""Writes the run directory during training."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import torch

from scalednl.files import sha256_of, writing_to
from scalednl.lab.config import RunSettings
from scalednl.lab.console import counted, duration
from scalednl.lab.data import ImageData
from scalednl.lab.machine import peak_bytes
from scalednl.lab.records import origin
from scalednl.lab.records.run import (
    Epoch,
    ErrorSummary,
    Position,
    Result,
    RunFolder,
    RunSetup,
    Status,
)
from scalednl.lab.training.checkpoint import clear_leftovers, save_checkpoint
from scalednl.lab.training.events import Events
from scalednl.lab.training.loop import Callback, Trainer
from scalednl.lab.training.setup import pretrained_file
from scalednl.models.weights import save_model


class RunWriter(Callback):
    """Writes checkpoints, records and TensorBoard events; ranks other than 0 write nothing."""

    def __init__(
        self,
        folder: RunFolder,
        settings: RunSettings,
        trainer: Trainer,
        data: ImageData,
        root: Path | None,
    ) -> None:
        self._folder, self._settings, self._root = folder, settings, root
        self._trainer, self._data = trainer, data
        self._writes = trainer.fabric.global_rank == 0
        self._origin = origin(torch.get_num_threads())
        self._saved = time.monotonic()
        self._events = Events(folder.path, trainer.experiment)
        self._config_sum: str | None = None
        self._weights_sum: str | None = None

    def begin(self, *, resumed: bool) -> None:
        """Write the first checkpoint and records of a new run; remove leftovers of killed ones."""
        if not self._writes:
            return
        trainer, folder = self._trainer, self._folder
        with self._writing():
            clear_leftovers(folder.path)
            clear_leftovers(folder.checkpoints)
            if not resumed:
                folder.write_config(trainer.experiment, self._first_setup())
            self._config_sum = folder.config_sum()
        if not resumed:
            self.save(trainer)
        self._write_records(self._result("running"))

    def is_save_due(self) -> bool:
        """Whether so many minutes have passed since the last checkpoint."""
        return self._writes and (
            time.monotonic() - self._saved >= 60 * self._settings.checkpoint_minutes
        )

    def save(self, trainer: Trainer) -> None:
        """Write a checkpoint of the current step."""
        self._saved = time.monotonic()
        if self._writes:
            folder, step = self._folder.checkpoints, trainer.state.global_step
            state = {**trainer.checkpoint_state(), "config_sha256": self._config_sum}
            save_checkpoint(folder, step, trainer.network, state)

    def record(self, trainer: Trainer) -> None:
        """Write predictions, the epochs' records, the result so far, and events."""
        if not self._writes:
            return
        if trainer.predictions is not None:
            with self._writing():
                classes = trainer.predictions.numpy()
                self._folder.write_predictions(classes, len(self._data.class_names))
        self._write_records(self._result("running"))
        if self._settings.tensorboard:
            with self._writing():
                self._events.add(trainer.state.epochs[-1], trainer.state.global_step)

    def finish(self, status: Status) -> Result:
        """Write the last result, and the weights when all epochs are done."""
        if self._writes and status == "finished":
            with self._writing():
                save_model(self._trainer.network, self._folder.weights)
                self._weights_sum = sha256_of(self._folder.weights)
                self._events.finish()
        result = self._result(status)
        if self._writes:
            self._write_records(result)
        self._trainer.fabric.barrier()
        return result

    def close(self) -> None:
        """Flush the events."""
        self._events.close()

    def setup(self) -> RunSetup:
        """How this process runs the experiment."""
        fabric = self._trainer.fabric
        return RunSetup(
            settings=self._settings.as_dict(),
            root=None if self._root is None else str(self._root.absolute()),
            device=fabric.device.type,
            world=fabric.world_size,
            precision=fabric.strategy.precision.precision,
            threads=torch.get_num_threads(),
            train_images=len(self._data.train),
            test_images=len(self._data.test),
            class_names=tuple(self._data.class_names),
            origin=self._origin,
        )

    def _first_setup(self) -> RunSetup:
        """The setup, with the weights that a fine-tuned run starts from."""
        experiment = self._trainer.experiment
        if not experiment.finetune:
            return self.setup()
        return replace(self.setup(), weights_sha256=sha256_of(pretrained_file(experiment)))

    def _write_records(self, result: Result) -> None:
        with self._writing():
            self._folder.write_epochs(self._trainer.state.epochs)
            self._folder.write_result(result)

    def _writing(self) -> AbstractContextManager[None]:
        advice = "the last checkpoint is kept, and the same command resumes from it"
        return writing_to(self._folder.path, advice)

    def _result(self, status: Status) -> Result:
        trainer, state = self._trainer, self._trainer.state
        images = state.epoch * trainer.batches.images + state.seen
        tested = [epoch for epoch in state.epochs if epoch.test_error_pct is not None]
        last = tested[-1] if tested else None
        return Result(
            status=status,
            recipe=trainer.experiment.recipe,
            seed=trainer.experiment.seed,
            test_error_pct=_errors(tested),
            test_loss=None if last is None else last.test_loss,
            train_loss=state.epochs[-1].train_loss if state.epochs else None,
            class_error_pct=None if last is None else _by_class(last, self._data.class_names),
            epochs=state.epoch,
            steps=state.global_step,
            diverged_at=(
                Position(state.epoch, state.step, state.global_step)
                if status == "diverged"
                else None
            ),
            seconds=state.seconds,
            images_per_second=images / max(1e-9, state.train_seconds),
            peak_memory_mb=_megabytes(peak_bytes(str(trainer.fabric.device))),
            parameters=sum(p.numel() for p in trainer.network.parameters()),
            sessions=state.sessions,
            config_sha256=self._config_sum,
            weights_sha256=self._weights_sum,
            origin=self._origin,
        )


def _errors(tested: Sequence[Epoch]) -> ErrorSummary:
    """The last error and the best; all None before the first test."""
    errors = [epoch.test_error_pct for epoch in tested if epoch.test_error_pct is not None]
    if not errors:
        return ErrorSummary()
    best = min(errors)
    return ErrorSummary(errors[-1], best, tested[errors.index(best)].epoch)


def _megabytes(size: int | None) -> float | None:
    return None if size is None else size / 1e6


def _by_class(epoch: Epoch, names: Sequence[str]) -> dict[str, float | None]:
    assert epoch.class_error_pct is not None
    return dict(zip(names, epoch.class_error_pct, strict=True))


def summary(result: Result) -> str:
    """A result in a sentence."""
    error, at = result.test_error_pct, result.diverged_at
    if result.status == "diverged" and at is not None:
        return (
            f"diverged: the loss was not finite at step {at.global_step + 1} "
            f"(epoch {at.epoch + 1}, step {at.step + 1})"
        )
    if error.last is None or error.best_epoch is None:
        return f"{result.status} before its first test"
    return (
        f"{result.status}: test error {error.last:.2f} % after {counted(result.epochs, 'epoch')} "
        f"(best {error.best:.2f} % after {error.best_epoch + 1}), {duration(result.seconds)}"
    )
