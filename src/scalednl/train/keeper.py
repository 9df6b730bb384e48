"""Who writes the run directory while a trainer works."""

import time
from collections.abc import Sequence
from typing import Any

import torch

from scalednl.config import RunSettings
from scalednl.data import ImageData
from scalednl.models.weights import save_model
from scalednl.records import origin
from scalednl.records.run import RunFolder, Status
from scalednl.train.checkpoint import load_checkpoint, save_checkpoint
from scalednl.train.devices import peak_memory_mb
from scalednl.train.events import Events
from scalednl.train.initial import file_hash, load_backbone, pretrained_file
from scalednl.train.loop import Owner, Trainer
from scalednl.train.progress import Progress
from scalednl.train.show import Display, duration


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
    ) -> None:
        self._folder, self._settings, self._display = folder, settings, display
        self._trainer, self._data, self._events = trainer, data, events
        self._writes = trainer.fabric.global_rank == 0
        self._origin = origin(torch.get_num_threads()).as_dict()
        self._saved = time.monotonic()

    def begin(self) -> None:
        """Go on from the last checkpoint, or write down what begins."""
        trainer = self._trainer
        checkpoint = load_checkpoint(self._folder.checkpoints)
        if checkpoint is not None:
            trainer.restore(checkpoint)
            progress = trainer.progress
            self._warn_of_changes()
            self._display.say(
                f"{self._folder.path}: going on with epoch {progress.epoch + 1}, "
                f"step {progress.step + 1} of {len(trainer.batches)}"
            )
        elif trainer.experiment.finetune:
            load_backbone(trainer.network, pretrained_file(trainer.experiment))
        if self._writes:
            if checkpoint is None:
                self._folder.write_config(trainer.experiment, self._how() | self._start())
                self.save(trainer)
            self._folder.write_epochs(trainer.progress.epochs)
            self._folder.write_result(self._result("running"))
        trainer.fabric.barrier()

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
        """The epoch's line, the result so far, and points for TensorBoard."""
        if self._writes:
            self._folder.write_epochs(trainer.progress.epochs)
            self._folder.write_result(self._result("running"))
            if self._events is not None:
                self._events.epoch(trainer.progress.epochs[-1], trainer.progress.global_step)

    def finish(self, status: Status) -> dict[str, Any]:
        """The last result; the weights beside it when all epochs are done."""
        result = self._result(status)
        if self._writes:
            if status == "finished":
                save_model(self._trainer.network, self._folder.weights)
            self._folder.write_result(result)
        self._trainer.fabric.barrier()
        return result

    def _how(self) -> dict[str, Any]:
        trainer = self._trainer
        return {
            **self._settings.as_dict(),
            "device": trainer.fabric.device.type,
            "world": trainer.fabric.world_size,
            "threads": torch.get_num_threads(),
            "memory_format": "channels_last",
            "train_images": len(self._data.train),
            "test_images": len(self._data.test),
            "class_names": list(self._data.class_names),
            "origin": self._origin,
        }

    def _start(self) -> dict[str, Any]:
        """What the run began from, if from trained weights."""
        experiment = self._trainer.experiment
        if not experiment.finetune:
            return {}
        return {"weights_sha256": file_hash(pretrained_file(experiment))}

    def _warn_of_changes(self) -> None:
        _, before = self._folder.read_config()
        now = self._how()
        for name in ("device", "world", "threads", "precision", "compile", "train_images"):
            if before.get(name) != now[name]:
                self._display.say(
                    f"begun with {name} {before.get(name)}, going on with {now[name]}: the last "
                    "digits of the result will depend on that"
                )

    def _result(self, status: Status) -> dict[str, Any]:
        trainer, progress = self._trainer, self._trainer.progress
        images = progress.epoch * trainer.batches.images + progress.seen
        return {
            "status": status,
            "recipe": trainer.experiment.recipe,
            "seed": trainer.experiment.seed,
            **_errors(progress.epochs, self._data.class_names),
            "epochs": progress.epoch,
            "steps": progress.global_step,
            "diverged_at": _position(progress) if status == "diverged" else None,
            "seconds": progress.seconds,
            "images_per_second": images / max(1e-9, progress.train_seconds),
            "peak_memory_mb": peak_memory_mb(trainer.fabric.device),
            "parameters": sum(p.numel() for p in trainer.network.parameters()),
            "sessions": progress.sessions,
            "origin": self._origin,
        }


def _errors(epochs: list[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Last first, best beside it; all None before the first epoch has ended."""
    if not epochs:
        nothing = {"last": None, "best": None, "best_epoch": None}
        return {
            "test_error_pct": nothing,
            "test_loss": None,
            "train_loss": None,
            "class_error_pct": None,
        }
    last, best = epochs[-1], min(epochs, key=lambda epoch: epoch["test_error_pct"])
    return {
        "test_error_pct": {
            "last": last["test_error_pct"],
            "best": best["test_error_pct"],
            "best_epoch": best["epoch"],
        },
        "test_loss": last["test_loss"],
        "train_loss": last["train_loss"],
        "class_error_pct": dict(zip(names, last["class_error_pct"], strict=True)),
    }


def _position(progress: Progress) -> dict[str, int]:
    return {
        "epoch": progress.epoch,
        "step": progress.step,
        "global_step": progress.global_step,
    }


def summary(result: dict[str, Any]) -> str:
    """A result in a sentence."""
    error = result["test_error_pct"]
    if result["status"] == "diverged":
        at = result["diverged_at"]
        return (
            f"diverged: the loss was not finite at step {at['global_step'] + 1} "
            f"(epoch {at['epoch'] + 1}, step {at['step'] + 1})"
        )
    if error["last"] is None:
        return f"{result['status']} before its first epoch ended"
    return (
        f"{result['status']}: test error {error['last']:.2f} % after {result['epochs']} epochs "
        f"(best {error['best']:.2f} % after {error['best_epoch'] + 1}), "
        f"{duration(result['seconds'])}"
    )
