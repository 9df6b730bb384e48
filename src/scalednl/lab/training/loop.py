"""The training loop: steps, tests, checkpoints, and every way to end."""

import math
import time
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor

from scalednl.errors import CommandError
from scalednl.lab.config import Experiment
from scalednl.lab.data import ImageData
from scalednl.lab.data.batches import Batch, Batches
from scalednl.lab.records.run import Epoch, Status
from scalednl.lab.signals import StopRequest
from scalednl.lab.training.checkpoint import Checkpoint
from scalednl.lab.training.display import Display
from scalednl.lab.training.evaluate import Evaluation, evaluate, sum_over_ranks, test_batches
from scalednl.lab.training.recalibrate import recalibrated
from scalednl.lab.training.run_state import Progress
from scalednl.lab.training.schedule import learning_rate
from scalednl.lab.training.setup import train_crop
from scalednl.models.residual import ResidualNetwork

GPU_STEPS = 50
"""Steps between two looks at the loss where looking waits for a GPU"""


class DivergedError(Exception):
    """The loss is no longer a number."""


class Trainer:
    """An experiment at work.

    Its owner decides when a checkpoint is due, and what becomes of it and of a finished epoch's
    record.
    """

    def __init__(
        self,
        experiment: Experiment,
        data: ImageData,
        network: ResidualNetwork,
        fabric: Fabric,
        *,
        compiled: bool = False,
    ) -> None:
        self.experiment, self.network, self.fabric = experiment, network, fabric
        self.progress = Progress()
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
        """Of the last test in this session"""

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint as if nothing had happened."""
        try:
            self.network.load_state_dict(checkpoint.weights)
            self._optimizer.load_state_dict(checkpoint.state["optimizer"])
        except (RuntimeError, ValueError) as error:
            raise CommandError("the checkpoint is one of another network") from error
        self.fabric.strategy.precision.load_state_dict(checkpoint.state["precision"])
        torch.set_rng_state(checkpoint.state["rng"])
        if "rng_cuda" in checkpoint.state and self.fabric.device.type == "cuda":
            torch.cuda.set_rng_state(checkpoint.state["rng_cuda"], self.fabric.device)
        self.progress = msgspec.convert(checkpoint.state["progress"], Progress)
        self.progress.sessions += 1

    def state(self) -> dict[str, Any]:
        """All that `restore` needs beside the weights."""
        state = {
            "optimizer": self._optimizer.state_dict(),
            "precision": self.fabric.strategy.precision.state_dict(),
            "rng": torch.get_rng_state(),
            "progress": self.progress.as_dict(),
        }
        if self.fabric.device.type == "cuda":
            state["rng_cuda"] = torch.cuda.get_rng_state(self.fabric.device)
        return state

    def run(self, owner: "Owner", stop: StopRequest, display: Display) -> Status:
        """Train to the end, to divergence, or to a signal."""
        steps = len(self.batches)
        try:
            while self.progress.epoch < self.experiment.epochs:
                display.begin_epoch(self.progress.epoch, steps, self.progress.step)
                stopped = self.train_epoch(owner, stop, display)
                display.end_epoch()
                if stopped:
                    return "interrupted"
                self._finish_epoch(owner, display)
        except DivergedError:
            display.end_epoch()
            return "diverged"
        return "finished"

    def train_step(self, batch: Batch) -> Tensor:
        """Forward, backward and update of one batch; the sum of its losses on this rank."""
        rate = learning_rate(
            self.experiment, self.progress.epoch, self.progress.step, len(self.batches)
        )
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        # The mean over the whole batch, whatever part of it this rank has; averaging over ranks
        # divides by their number.
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
        """Ranks exchange gradients with the last part of a batch."""
        if last or self.fabric.world_size == 1:
            return nullcontext()
        return self.fabric.no_backward_sync(self._model)

    def train_epoch(self, owner: "Owner", stop: StopRequest, display: Display) -> bool:
        """The rest of the current epoch; whether a signal cut it short."""
        self._model.train()
        progress = self.progress
        clock = time.perf_counter()
        for batch in self.batches.epoch(progress.epoch, progress.step):
            self._losses.append(self.train_step(batch))
            progress.step += 1
            progress.global_step += 1
            progress.seen += batch.count
            ended = progress.step == len(self.batches)
            look = ended or len(self._losses) >= self._interval
            display.step(self._losses[-1].item() if look else None)
            clock = progress.count_time(clock)
            if not look:
                continue
            signal, save = self._agree(stop, owner)
            if signal or save:
                self._collect()
                owner.save(self)
                clock = time.perf_counter()
            if signal:
                stop.signal = signal
                return True
        self._collect()
        return False

    def _agree(self, stop: StopRequest, owner: "Owner") -> tuple[int, int]:
        """Signal, and whether to save, of any rank; an error if any rank's loss is not finite."""
        bad = ~torch.isfinite(torch.stack(self._losses))
        # Steps back from here to the first bad one, 0 if there is none.
        back = len(bad) - int(bad.int().argmax()) if bad.any() else 0
        self._losses.clear()
        asked = torch.tensor([stop.signal, int(owner.wants_save()), back])
        if self.fabric.world_size > 1:
            asked = asked.to(self.fabric.device)
            torch.distributed.all_reduce(asked, torch.distributed.ReduceOp.MAX)
        signal, save, back = asked.tolist()
        if back:
            self.progress.step -= back
            self.progress.global_step -= back
            raise DivergedError
        return signal, save

    def _collect(self) -> None:
        """Move the sums since the last time into the progress, over all ranks."""
        sum_over_ranks(self._sums)
        self.progress.loss_sum += self._sums[0].item()
        self.progress.wrong += int(self._sums[1].item())
        self._sums.zero_()

    def _evaluated(self) -> Evaluation:
        """The test; with recalibrated statistics, which stay after the last epoch, if asked for."""
        count, epoch = self.experiment.recalibrate, self.progress.epoch
        if not count:
            return evaluate(self._model, self._tests, self._classes)
        # The epoch's own first batches, as they were trained on.
        batches = (batch.images for batch in islice(self.batches.epoch(epoch), count))
        last = epoch + 1 == self.experiment.epochs
        with recalibrated(self._model, batches, keep=last):
            return evaluate(self._model, self._tests, self._classes)

    def _finish_epoch(self, owner: "Owner", display: Display) -> None:
        progress = self.progress
        test = self._test()
        record = Epoch(
            epoch=progress.epoch,
            lr=self._optimizer.param_groups[0]["lr"],
            train_loss=progress.loss_sum / progress.seen,
            train_error_pct=100 * progress.wrong / progress.seen,
            test_loss=None if test is None else test.loss,
            test_error_pct=None if test is None else test.error_pct,
            class_error_pct=None if test is None else tuple(test.class_error_pct),
            seconds=progress.seconds,
            images_per_second=progress.seen / max(1e-9, progress.epoch_seconds),
        )
        progress.epochs.append(record)
        progress.epoch += 1
        progress.begin_epoch()
        left = progress.seconds / progress.epoch * (self.experiment.epochs - progress.epoch)
        display.epoch(record, left)
        owner.record(self)
        owner.save(self)

    def _test(self) -> Evaluation | None:
        """The test after this epoch; None where there is none."""
        if not self.experiment.is_tested_after(self.progress.epoch):
            return None
        start = time.perf_counter()
        found = self._evaluated()
        self.progress.seconds += time.perf_counter() - start
        if not math.isfinite(found.loss):
            raise DivergedError
        self.predictions = found.predictions
        return found


class Owner:
    """Who keeps what a trainer makes; this one keeps nothing."""

    def wants_save(self) -> bool:
        """Whether it is time for a checkpoint in the middle of an epoch."""
        return False

    def save(self, trainer: Trainer) -> None:
        """Keep a checkpoint."""

    def record(self, trainer: Trainer) -> None:
        """Keep the record of the epoch that has just ended."""
