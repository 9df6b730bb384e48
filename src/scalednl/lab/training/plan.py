"""What a run will cost, before it is begun: counted where it can be, probed where it cannot."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from scalednl.lab.config import Experiment
from scalednl.lab.console import duration
from scalednl.lab.counting import bytes_kept, multiply_adds
from scalednl.lab.data import ImageData
from scalednl.lab.training.loop import Trainer
from scalednl.models.residual import ResidualNetwork

PROBE_SECONDS = 5.0


@dataclass(frozen=True)
class RunPlan:
    """Counts, and an estimate of the time."""

    experiment: Experiment
    parameters: int
    multiply_adds: int
    """Of one image, forward"""
    memory_mb: float
    """Weights, gradients, momentum, and what a step keeps for its backward pass"""
    steps: int
    """Of an epoch"""
    images_per_second: float
    seconds: float
    """Of all epochs' training steps"""

    def __str__(self) -> str:
        experiment, block = self.experiment, self.experiment.block
        stack = "no blocks"
        if block.blocks:
            stack = f"{block.blocks} {block.attention} blocks of {block.heads} heads"
        rows = {
            "experiment": f"{experiment.recipe}, seed {experiment.seed}",
            "network": f"{experiment.model}, {stack}",
            "parameters": f"{self.parameters:,}",
            "multiply-adds": f"{self.multiply_adds / 1e6:,.1f} M an image, forward",
            "memory": f"about {self.memory_mb:,.0f} MB for a batch of {experiment.batch}",
            "steps": f"{self.steps:,} an epoch, {self.steps * experiment.epochs:,} in all",
            "speed": f"{self.images_per_second:,.0f} images/s in a probe of {PROBE_SECONDS:g} s",
            "time": f"about {duration(self.seconds)} of training, tests come on top",
        }
        return "\n".join(f"{name:14} {text}" for name, text in rows.items())


def plan_run(trainer: Trainer, data: ImageData) -> RunPlan:
    """Count and probe; the trainer is used up by it."""
    network, experiment = trainer.network, trainer.experiment
    batch = next(trainer.batches.epoch(0))
    macs = _forward(network, batch.images[:1])
    weights = sum(p.numel() * p.element_size() for p in network.parameters())
    part = batch.images[: max(1, len(batch.images) // experiment.accumulate)]
    network.train()
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


def _forward(network: ResidualNetwork, image: Tensor) -> int:
    """Multiply-adds of one forward pass in evaluation mode."""
    was_training = network.training
    network.eval()
    with torch.no_grad():
        count = multiply_adds(lambda: network(image))
    network.train(was_training)
    return count


def _probe(trainer: Trainer) -> float:
    """Images a second of real steps, the first one not counted."""
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
