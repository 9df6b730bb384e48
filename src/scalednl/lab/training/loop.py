"""The training loop: steps, tests, checkpoints, and the ways it can end."""

import math
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from scalednl.config import is_foreign
from scalednl.errors import CommandError
from scalednl.lab.config import Experiment
from scalednl.lab.data import ImageData
from scalednl.lab.data.batches import Batch, Batches
from scalednl.lab.records.run import Epoch, Status
from scalednl.lab.seeds import derive_seed
from scalednl.lab.signals import StopRequest
from scalednl.lab.training.checkpoint import Checkpoint
from scalednl.lab.training.display import Display
from scalednl.lab.training.evaluate import Evaluation, evaluate, sum_over_ranks, test_batches
from scalednl.lab.training.recalibrate import recalibrated
from scalednl.lab.training.schedule import learning_rate
from scalednl.lab.training.setup import seed_random_numbers, train_crop

GPU_STEPS = 50
"""Steps between two readings of the loss, because reading it waits for the GPU"""


class DivergedError(Exception):
    """The loss is no longer finite."""


@dataclass
class TrainState:
    """How far a training is; `epoch` and `step` are those that come next."""

    epoch: int = 0
    step: int = 0
    """Within this epoch"""
    global_step: int = 0
    seconds: float = 0.0
    """For training and testing, over all sessions"""
    train_seconds: float = 0.0
    """For training steps alone"""
    epoch_seconds: float = 0.0
    """For this epoch's steps so far"""
    loss_sum: float = 0.0
    """Over this epoch's images so far, on all ranks"""
    wrong: int = 0
    """Misclassified images of this epoch so far"""
    seen: int = 0
    sessions: int = 1
    """Processes that worked on this run, one after the other"""
    epochs: list[Epoch] = field(default_factory=list)
    """The record of every finished epoch"""

    def count_time(self, since: float) -> float:
        """Add the time of a training step since `since`; returns the time now."""
        now = time.perf_counter()
        self.seconds += now - since
        self.train_seconds += now - since
        self.epoch_seconds += now - since
        return now

    def begin_epoch(self) -> None:
        """Reset the sums of the previous epoch."""
        self.step = self.seen = self.wrong = 0
        self.loss_sum = self.epoch_seconds = 0.0


class Trainer:
    """Trains an experiment; a `Callback` stores its checkpoints and records."""

    def __init__(
        self,
        experiment: Experiment,
        data: ImageData,
        network: nn.Module,
        fabric: Fabric,
        *,
        compiled: bool = False,
    ) -> None:
        self.experiment, self.network, self.fabric = experiment, network, fabric
        self.state = TrainState()
        share: dict[str, Any] = {
            "rank": fabric.global_rank,
            "world": fabric.world_size,
            "device": fabric.device,
        }
        self._classes = len(data.class_names)
        self.batches = Batches(
            data,
            data.train,
            experiment.batch,
            train_crop(experiment),
            seed=experiment.seed,
            **share,
        )
        self._tests = test_batches(experiment, data, **share)
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._optimizer = torch.optim.SGD(
            network.parameters(),
            lr=experiment.lr,
            momentum=experiment.momentum,
            weight_decay=experiment.weight_decay,
        )
        model = torch.compile(network) if compiled else network
        self._model, self._stepper = fabric.setup(model, self._optimizer)  # type: ignore[arg-type]
        self._interval = 1 if fabric.device.type == "cpu" else GPU_STEPS
        self._sums = torch.zeros(2, dtype=torch.float64 if self._interval == 1 else torch.float32)
        self._sums = self._sums.to(fabric.device)
        self._losses: list[Tensor] = []
        self.predictions: Tensor | None = None
        """Those of the last test in this process"""

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint, to the same bits as without the interruption."""
        state = checkpoint.state
        try:
            self.network.load_state_dict(checkpoint.weights)
            self._optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError) as error:
            raise CommandError(f"{checkpoint.path} belongs to another network") from error
        except (KeyError, TypeError, AttributeError) as error:
            raise CommandError(f"{checkpoint.path} contains no state of the optimizer") from error
        try:
            self.fabric.strategy.precision.load_state_dict(state["precision"])
            torch.set_rng_state(state["rng"])
            if "rng_cuda" in state and self.fabric.device.type == "cuda":
                torch.cuda.set_rng_state(state["rng_cuda"], self.fabric.device)
            self.state = msgspec.convert(state["progress"], TrainState)
            self._check_state(checkpoint.path.name)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            why = f"{error} is missing" if isinstance(error, KeyError) else error
            raise CommandError(f"{checkpoint.path} cannot be resumed from: {why}") from error

    def _check_state(self, name: str) -> None:
        """Raise unless the position is one of this training, and the momentum fits the weights."""
        state, steps = self.state, len(self.batches)
        # With another number of processes, an epoch may have had a step more or less.
        if not (0 <= state.epoch <= self.experiment.epochs and 0 <= state.step <= steps + 1):
            raise ValueError(f"it has no epoch {state.epoch} with a step {state.step}")
        distance = abs(state.global_step - state.epoch * steps - state.step)
        if distance > state.epoch or name != f"{state.global_step:08}":
            raise ValueError(f"step {state.global_step} is not that of epoch {state.epoch}")
        if len(state.epochs) != state.epoch or state.seconds < 0 or state.sessions < 1:
            raise ValueError(f"it has records of {len(state.epochs)} epochs after {state.epoch}")
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                buffer = self._optimizer.state[parameter].get("momentum_buffer", parameter)
                if getattr(buffer, "shape", None) != parameter.shape:
                    raise ValueError("its momentum belongs to another network")

    def checkpoint_state(self) -> dict[str, Any]:
        """Everything that `restore` needs beside the weights."""
        values = {
            "optimizer": self._optimizer.state_dict(),
            "precision": self.fabric.strategy.precision.state_dict(),
            "rng": torch.get_rng_state(),
            "progress": asdict(self.state),
        }
        if self.fabric.device.type == "cuda":
            values["rng_cuda"] = torch.cuda.get_rng_state(self.fabric.device)
        return values

    def run(self, callback: "Callback", stop: StopRequest, display: Display) -> Status:
        """Train until all epochs are done, the loss diverges, or a signal comes."""
        steps = len(self.batches)
        try:
            while self.state.epoch < self.experiment.epochs:
                display.begin_epoch(self.state.epoch, steps, self.state.step)
                stopped = self.train_epoch(callback, stop, display)
                display.end_epoch()
                if stopped:
                    return "interrupted"
                self._finish_epoch(callback, display)
        except DivergedError:
            display.end_epoch()
            return "diverged"
        return "finished"

    def train_step(self, batch: Batch) -> Tensor:
        """Forward, backward and update of one batch; returns its mean loss on this rank."""
        rate = learning_rate(self.experiment, self.state.epoch, self.state.step, len(self.batches))
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        if self.experiment.dropout or is_foreign(self.experiment.model):
            # What is dropped depends on the step alone, so that a resumed run drops the same.
            place = self.state.epoch, self.state.step, self.fabric.global_rank
            seed_random_numbers(derive_seed(self.experiment.seed, "dropout", *place))
        # The mean over the complete batch, whatever share of it this rank has; averaging gradients
        # over ranks divides by their number.
        factor = self.fabric.world_size / batch.count
        parts = min(self.experiment.accumulate, len(batch.labels))
        images, labels = (tensor.tensor_split(parts) for tensor in (batch.images, batch.labels))
        total = torch.zeros((), device=self.fabric.device)
        for index in range(parts):
            with self._syncing(index + 1 == parts):
                scores = self._model(images[index])
                loss = F.cross_entropy(
                    scores.float(),
                    labels[index],
                    reduction="sum",
                    label_smoothing=self.experiment.label_smoothing,
                )
                self.fabric.backward(loss * factor)
            wrong = (scores.detach().argmax(1) != labels[index]).sum()
            self._sums += torch.stack([loss.detach().to(self._sums), wrong.to(self._sums)])
            total = total + loss.detach()
        self._stepper.step()
        self._stepper.zero_grad()
        return total / len(batch.labels)

    def _syncing(self, last: bool) -> AbstractContextManager[None]:
        """Ranks exchange gradients in the last part of a batch only."""
        if last or self.fabric.world_size == 1:
            return nullcontext()
        return self.fabric.no_backward_sync(self._model)

    def train_epoch(self, callback: "Callback", stop: StopRequest, display: Display) -> bool:
        """Train the rest of the current epoch; returns whether a signal interrupted it."""
        self._model.train()
        state = self.state
        clock = time.perf_counter()
        for batch in self.batches.epoch(state.epoch, state.step):
            self._losses.append(self.train_step(batch))
            state.step += 1
            state.global_step += 1
            state.seen += batch.count
            ended = state.step == len(self.batches)
            look = ended or len(self._losses) >= self._interval
            display.step(self._losses[-1].item() if look else None)
            clock = state.count_time(clock)
            if not look:
                continue
            signal, save = self._agree(stop, callback)
            if signal or save:
                self._collect()
                callback.save(self)
                clock = time.perf_counter()
            if signal:
                stop.signal = signal
                return True
        self._collect()
        return False

    def _agree(self, stop: StopRequest, callback: "Callback") -> tuple[int, int]:
        """The signal of any rank, and whether to save; raises if a rank's loss is not finite."""
        bad = ~torch.isfinite(torch.stack(self._losses))
        # Steps from the first bad one to here, 0 if there is none.
        back = len(bad) - int(bad.int().argmax()) if bad.any() else 0
        self._losses.clear()
        asked = torch.tensor([stop.signal, int(callback.is_save_due()), back])
        if self.fabric.world_size > 1:
            asked = asked.to(self.fabric.device)
            torch.distributed.all_reduce(asked, torch.distributed.ReduceOp.MAX)
        signal, save, back = asked.tolist()
        if back:
            self.state.step -= back
            self.state.global_step -= back
            raise DivergedError
        return signal, save

    def _collect(self) -> None:
        """Add the sums since the last time, over all ranks, to the state."""
        sum_over_ranks(self._sums)
        self.state.loss_sum += self._sums[0].item()
        self.state.wrong += int(self._sums[1].item())
        self._sums.zero_()

    def _evaluated(self) -> Evaluation:
        """Test, with recalibrated statistics if asked for; after the last epoch these stay."""
        count, epoch = self.experiment.recalibrate, self.state.epoch
        if not count:
            return evaluate(self._model, self._tests, self._classes)
        # The first batches of this epoch, as they were trained on.
        batches = (batch.images for batch in islice(self.batches.epoch(epoch), count))
        last = epoch + 1 == self.experiment.epochs
        with recalibrated(self._model, batches, keep=last):
            return evaluate(self._model, self._tests, self._classes)

    def _finish_epoch(self, callback: "Callback", display: Display) -> None:
        state = self.state
        test = self._test()
        record = Epoch(
            epoch=state.epoch,
            lr=self._optimizer.param_groups[0]["lr"],
            train_loss=state.loss_sum / state.seen,
            train_error_pct=100 * state.wrong / state.seen,
            test_loss=None if test is None else test.loss,
            test_error_pct=None if test is None else test.error_pct,
            class_error_pct=None if test is None else tuple(test.class_error_pct),
            seconds=state.seconds,
            images_per_second=state.seen / max(1e-9, state.epoch_seconds),
        )
        state.epochs.append(record)
        state.epoch += 1
        state.begin_epoch()
        left = state.seconds / state.epoch * (self.experiment.epochs - state.epoch)
        display.epoch(record, left)
        callback.record(self)
        callback.save(self)

    def _test(self) -> Evaluation | None:
        """The test after this epoch; None if the experiment has none there."""
        if not self.experiment.is_tested_after(self.state.epoch):
            return None
        start = time.perf_counter()
        found = self._evaluated()
        self.state.seconds += time.perf_counter() - start
        if not math.isfinite(found.loss):
            raise DivergedError
        self.predictions = found.predictions
        return found


class Callback:
    """Stores what a trainer makes; this base class stores nothing."""

    def is_save_due(self) -> bool:
        """Whether it is time for a checkpoint within an epoch."""
        return False

    def save(self, trainer: Trainer) -> None:
        """Store a checkpoint."""

    def record(self, trainer: Trainer) -> None:
        """Store the record of the epoch that has just ended."""
