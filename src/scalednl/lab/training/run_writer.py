"""Who writes the run directory while a trainer works."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from scalednl.errors import CommandError, UsageError
from scalednl.files import sha256_of
from scalednl.lab.config import RunSettings
from scalednl.lab.console import duration
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
from scalednl.lab.training.checkpoint import clear_leftovers, load_checkpoint, save_checkpoint
from scalednl.lab.training.display import Display
from scalednl.lab.training.loop import Owner, Trainer
from scalednl.lab.training.setup import load_pretrained, pretrained_file
from scalednl.lab.training.tensorboard import Events
from scalednl.models.weights import save_model


class Keeper(Owner):
    """Writes the run directory; on ranks other than 0 it only keeps time."""

    def __init__(
        self,
        folder: RunFolder,
        settings: RunSettings,
        trainer: Trainer,
        data: ImageData,
        display: Display,
        events: Events | None,
        root: Path | None,
    ) -> None:
        self._folder, self._settings, self._display = folder, settings, display
        self._trainer, self._data, self._events = trainer, data, events
        self._root = root
        self._writes = trainer.fabric.global_rank == 0
        self._origin = origin(torch.get_num_threads())
        self._saved = time.monotonic()

    def begin(self) -> None:
        """Go on from the last checkpoint, or write down what begins."""
        trainer, folder = self._trainer, self._folder
        checkpoint = load_checkpoint(folder.checkpoints)
        if checkpoint is not None:
            self._compare_with_before()
            trainer.restore(checkpoint)
            progress = trainer.progress
            self._display.say(
                f"{folder.path}: going on with epoch {progress.epoch + 1}, "
                f"step {progress.step + 1} of {len(trainer.batches)}"
            )
        elif trainer.experiment.finetune:
            load_pretrained(trainer.network, trainer.experiment)
        self._check_all_ranks_have_the_same()
        if self._writes:
            with writing(folder.path):
                clear_leftovers(folder.path)
                clear_leftovers(folder.checkpoints)
                if checkpoint is None:
                    folder.write_config(trainer.experiment, self._first_setup())
            if checkpoint is None:
                self.save(trainer)
            self._write_records("running")
        trainer.fabric.barrier()

    def _check_all_ranks_have_the_same(self) -> None:
        """All ranks must have read the same checkpoint, before rank 0 writes another."""
        fabric = self._trainer.fabric
        if fabric.world_size > 1:
            step = torch.tensor([self._trainer.progress.global_step], device=fabric.device)
            steps = [torch.zeros_like(step) for _ in range(fabric.world_size)]
            torch.distributed.all_gather(steps, step)
            if len({int(found) for found in steps}) > 1:
                raise CommandError(
                    f"the processes see different checkpoints in {self._folder.path}: it must lie "
                    "where all machines see it"
                )

    def _write_records(self, status: Status) -> None:
        with writing(self._folder.path):
            self._folder.write_epochs(self._trainer.progress.epochs)
            self._folder.write_result(self._result(status))

    def wants_save(self) -> bool:
        """Every so many minutes."""
        return self._writes and (
            time.monotonic() - self._saved >= 60 * self._settings.checkpoint_minutes
        )

    def save(self, trainer: Trainer) -> None:
        """A checkpoint of this very step."""
        self._saved = time.monotonic()
        if self._writes:
            folder, step = self._folder.checkpoints, trainer.progress.global_step
            save_checkpoint(folder, step, trainer.network, trainer.state())

    def record(self, trainer: Trainer) -> None:
        """The epoch's line, predictions, the result so far, and points for TensorBoard."""
        if self._writes:
            if trainer.predictions is not None:
                with writing(self._folder.path):
                    classes = trainer.predictions.numpy()
                    self._folder.write_predictions(classes, len(self._data.class_names))
            self._write_records("running")
            if self._events is not None:
                with writing(self._folder.path):
                    self._events.epoch(trainer.progress.epochs[-1], trainer.progress.global_step)

    def finish(self, status: Status) -> Result:
        """The last result; the weights beside it when all epochs are done."""
        if self._writes:
            if status == "finished":
                with writing(self._folder.path):
                    save_model(self._trainer.network, self._folder.weights)
            self._write_records(status)
        self._trainer.fabric.barrier()
        return self._result(status)

    def _setup(self) -> RunSetup:
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
        """The setup with the weights that the run begins from, if it begins from any."""
        experiment = self._trainer.experiment
        if not experiment.finetune:
            return self._setup()
        return replace(self._setup(), weights_sha256=sha256_of(pretrained_file(experiment)))

    def _compare_with_before(self) -> None:
        """Refuse what would make another experiment of it; tell what changes its last digits."""
        _, before = self._folder.read_config()
        now = self._setup()
        for name in ("precision", "train_images", "test_images"):
            old, new = getattr(before, name), getattr(now, name)
            if old != new:
                raise UsageError(
                    f"{self._folder.path} was begun with {name} {old} and cannot go on with {new}"
                )
        for name in ("device", "world", "threads"):
            old, new = getattr(before, name), getattr(now, name)
            if old != new:
                self._display.say(
                    f"begun with {name} {old}, going on with {new}: the last digits of the result "
                    "will depend on that"
                )

    def _result(self, status: Status) -> Result:
        trainer, progress = self._trainer, self._trainer.progress
        images = progress.epoch * trainer.batches.images + progress.seen
        tested = [epoch for epoch in progress.epochs if epoch.test_error_pct is not None]
        last = tested[-1] if tested else None
        return Result(
            status=status,
            recipe=trainer.experiment.recipe,
            seed=trainer.experiment.seed,
            test_error_pct=_errors(tested),
            test_loss=None if last is None else last.test_loss,
            train_loss=progress.epochs[-1].train_loss if progress.epochs else None,
            class_error_pct=None if last is None else _by_class(last, self._data.class_names),
            epochs=progress.epoch,
            steps=progress.global_step,
            diverged_at=(
                Position(progress.epoch, progress.step, progress.global_step)
                if status == "diverged"
                else None
            ),
            seconds=progress.seconds,
            images_per_second=images / max(1e-9, progress.train_seconds),
            peak_memory_mb=_megabytes(peak_bytes(str(trainer.fabric.device))),
            parameters=sum(p.numel() for p in trainer.network.parameters()),
            sessions=progress.sessions,
            origin=self._origin,
        )


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn what the disk says into a sentence."""
    try:
        yield
    except OSError as error:
        raise CommandError(
            f"{folder} could not be written ({error.strerror or error}): what was saved is kept, "
            "and the same command goes on from it"
        ) from error


def _errors(tested: Sequence[Epoch]) -> ErrorSummary:
    """Last first, best beside it; all None before the first test."""
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
        f"{result.status}: test error {error.last:.2f} % after {result.epochs} epochs "
        f"(best {error.best:.2f} % after {error.best_epoch + 1}), {duration(result.seconds)}"
    )
