"""The cost of a run before it is trained: counted where possible, else measured for seconds."""

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from scalednl.errors import UsageError
from scalednl.lab.config import Experiment, RunSettings
from scalednl.lab.console import counted, duration, speed_words
from scalednl.lab.counting import bytes_kept, multiply_adds
from scalednl.lab.data import ImageData
from scalednl.lab.data.folder_cache import with_images
from scalednl.lab.training.loop import Trainer
from scalednl.lab.training.parts import prepare
from scalednl.lab.training.setup import with_possible_batch
from scalednl.lab.user_code import check_code
from scalednl.models.probe import evaluating

PROBE_SECONDS = 5.0


@dataclass(frozen=True)
class RunPlan:
    """Counts, and an estimate of the time."""

    experiment: Experiment
    parameters: int
    multiply_adds: int
    """Per image, forward"""
    memory_mb: float
    """Weights, gradients, momentum, and what a step stores for its backward pass"""
    steps: int
    """Per epoch"""
    images_per_second: float
    seconds: float
    """For the training steps of all epochs"""

    def __str__(self) -> str:
        experiment, block = self.experiment, self.experiment.block
        stack = "no blocks"
        if experiment.blocks:
            blocks = counted(experiment.blocks, f"{block.attention} block")
            stack = f"{blocks} of {counted(block.heads, 'head')}"
        rows = {
            "experiment": f"{experiment.recipe}, seed {experiment.seed}",
            "network": f"{experiment.model}, {stack}",
            "parameters": f"{self.parameters:,}",
            "multiply-adds": f"{self.multiply_adds / 1e6:,.1f} M per image, forward",
            "memory": f"about {self.memory_mb:,.0f} MB for a batch of {experiment.batch}",
            "steps": f"{self.steps:,} per epoch, {self.steps * experiment.epochs:,} in total",
            "speed": f"{speed_words(self.images_per_second)}, measured for {PROBE_SECONDS:g} s",
            "time": f"about {duration(self.seconds)} of training, without tests",
        }
        return "\n".join(f"{name:14} {text}" for name, text in rows.items())


def plan_run(experiment: Experiment, settings: RunSettings, root: Path | None = None) -> RunPlan:
    """What training an experiment on one device costs; trains for some seconds, writes nothing."""
    if settings.devices > 1:
        raise UsageError("--dry-run plans for one device: leave out --devices")
    check_code(experiment.code, experiment.own_names)
    experiment = with_possible_batch(with_images(experiment, root))
    data, network, fabric = prepare(experiment, settings, root, pretrained=True)
    trainer = Trainer(experiment, data, network, fabric, compiled=settings.compile)
    return _measure(trainer, data)


def _measure(trainer: Trainer, data: ImageData) -> RunPlan:
    """Count and probe; the trainer cannot be used afterwards."""
    network, experiment = trainer.network, trainer.experiment
    batch = next(trainer.batches.epoch(0))
    macs = _forward(network, batch.images[:1])
    weights = sum(p.numel() * p.element_size() for p in network.parameters())
    part = batch.images[: max(1, len(batch.images) // experiment.accumulate)]
    network.train()
    with trainer.fabric.autocast():
        kept = bytes_kept(network, part)
    speed = _probe(trainer)
    steps = len(trainer.batches)
    return RunPlan(
        experiment,
        sum(p.numel() for p in network.parameters()),
        macs,
        (3 * weights + kept + part.nbytes) / 1e6,
        steps,
        speed,
        experiment.epochs * len(data.train) / speed,
    )


def _forward(network: nn.Module, image: Tensor) -> int:
    """Multiply-adds of one forward pass in evaluation mode."""
    with evaluating(network), torch.no_grad():
        return multiply_adds(lambda: network(image))


def _probe(trainer: Trainer) -> float:
    """Images per second of training steps, without the first one."""
    seen, start, first = 0, 0.0, True
    while first or time.perf_counter() - start < PROBE_SECONDS:
        for batch in trainer.batches.epoch(0):
            trainer.train_step(batch).item()
            if first:
                first, start = False, time.perf_counter()
                continue
            seen += batch.count
            if time.perf_counter() - start >= PROBE_SECONDS:
                break
    return max(1, seen) / (time.perf_counter() - start)
