"""Error and loss of a network on a split."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn

from scalednl.errors import CommandError, UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.data import ImageData
from scalednl.lab.data.batches import Batches
from scalednl.lab.records.run import RunFolder
from scalednl.lab.training.setup import experiment_data, test_crop, weights_file
from scalednl.models.residual import ResidualNetwork
from scalednl.models.weights import load_model

TEST_BATCH = 200


@dataclass(frozen=True)
class Evaluation:
    """What came out, over all images and for each class."""

    error_pct: float
    loss: float
    class_error_pct: list[float | None]
    """None where a class has no image"""
    images: int
    predictions: Int[Tensor, "images"]
    """The predicted class of every image, in the order of the split"""


@torch.no_grad()
def evaluate(model: nn.Module, batches: Batches, classes: int) -> Evaluation:
    """Run all batches in evaluation mode; over several processes, all get the joint result."""
    was_training = model.training
    model.eval()
    device = batches.device
    loss = torch.zeros((), dtype=_wide(device), device=device)
    wrong, seen = (torch.zeros(classes, dtype=torch.long, device=device) for _ in range(2))
    predictions = torch.zeros(batches.images, dtype=torch.long, device=device)
    for batch in batches.epoch(0):
        scores = model(batch.images).float()
        loss += F.cross_entropy(scores, batch.labels, reduction="sum")
        predicted = scores.argmax(1)
        predictions[batch.first : batch.first + len(predicted)] = predicted
        mistakes = (predicted != batch.labels).long()
        wrong.index_add_(0, batch.labels, mistakes)
        seen.index_add_(0, batch.labels, torch.ones_like(mistakes))
    model.train(was_training)
    for total in (loss, wrong, seen, predictions):
        sum_over_ranks(total)
    images = int(seen.sum())
    pairs = zip(wrong.tolist(), seen.tolist(), strict=True)
    return Evaluation(
        100 * int(wrong.sum()) / images,
        loss.item() / images,
        [100 * mistakes / count if count else None for mistakes, count in pairs],
        images,
        predictions.cpu(),
    )


def evaluate_source(
    source: Path, name: str | None, limit: int | None, root: Path | None
) -> dict[str, Any]:
    """Test the network of a run directory or a weights file, as `scalednl eval` prints it."""
    experiment = source_experiment(source, name)
    if experiment is None:
        raise UsageError(f"{source} does not say what it was trained on: add --data NAME")
    experiment = replace(experiment, limit=None, test_limit=limit or experiment.test_limit)
    model = source_model(source)
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit} makes no sense: give 1 or more")
    data = experiment_data(experiment, root)
    check_classes(source, model, data)
    batches = test_batches(experiment, data)
    network = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    found = evaluate(network, batches, len(data.class_names))
    return {
        "source": str(source),
        "data": experiment.data,
        "images": found.images,
        "test_error_pct": found.error_pct,
        "test_loss": found.loss if math.isfinite(found.loss) else None,
        "class_error_pct": dict(zip(data.class_names, found.class_error_pct, strict=True)),
    }


def source_experiment(source: Path, name: str | None) -> Experiment | None:
    """What a run was trained on, or the data set that is named; None if nothing says it."""
    folder = RunFolder(source)
    experiment = folder.read_config()[0] if folder.exists() else None
    if name is None or (experiment is not None and name == experiment.data):
        return experiment
    return Experiment(data=name)


def source_model(source: Path) -> ResidualNetwork:
    """The network of a run directory or a weights file."""
    try:
        return load_model(weights_file(source))
    except ValueError as error:
        raise CommandError(str(error)) from error


def check_classes(source: Path, model: ResidualNetwork, data: ImageData) -> None:
    """Refuse a network that tells other classes apart than the data has."""
    assert model.config is not None
    if model.config.num_classes != len(data.class_names):
        raise CommandError(
            f"{source} tells {model.config.num_classes} classes apart, and {data.name} has "
            f"{len(data.class_names)}"
        )


def test_batches(experiment: Experiment, data: ImageData, **share: Any) -> Batches:
    """The test images in their order; `share` says which part of them this process takes."""
    batch = max(share.get("world", 1), min(TEST_BATCH, len(data.test)))
    return Batches(data, data.test, batch, test_crop(experiment), shuffle=False, **share)


def sum_over_ranks(value: Tensor) -> None:
    """Add up a tensor over all processes, in place; nothing to do for one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(value)


def _wide(device: torch.device) -> torch.dtype:
    """The widest float type of a device."""
    return torch.float32 if device.type == "mps" else torch.float64
