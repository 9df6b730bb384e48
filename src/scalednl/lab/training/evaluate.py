"""Error and loss of a network on a split."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from scalednl.errors import UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.config.folder import check_folder_is_there
from scalednl.lab.config.limits import check_at_least, check_at_most
from scalednl.lab.data import ImageData
from scalednl.lab.data.batches import Batches
from scalednl.lab.training.setup import experiment_data, test_crop
from scalednl.lab.training.trained import (
    check_classes,
    source_experiment,
    source_model,
    with_reference_pixels,
)
from scalednl.models.probe import evaluating

TEST_BATCH = 200
Images = Float[Tensor, "batch 3 _ _"]


@dataclass(frozen=True)
class Evaluation:
    """Error and loss over all images, and the error of each class."""

    error_pct: float
    loss: float
    class_error_pct: list[float | None]
    """None if a class has no image"""
    images: int
    predictions: Int[Tensor, "images"]
    """The predicted class of every image, in the order of the split"""


@torch.no_grad()
def evaluate(model: nn.Module, batches: Batches, classes: int) -> Evaluation:
    """Test a network in evaluation mode; all processes get the joint result."""
    device = batches.device
    loss = torch.zeros((), dtype=_wide(device), device=device)
    wrong, seen = (torch.zeros(classes, dtype=torch.long, device=device) for _ in range(2))
    predictions = torch.zeros(batches.images, dtype=torch.long, device=device)
    with evaluating(model):
        for batch in batches.epoch(0):
            scores = model(batch.images).float()
            loss += F.cross_entropy(scores, batch.labels, reduction="sum")
            predicted = scores.argmax(1)
            predictions[batch.first : batch.first + len(predicted)] = predicted
            mistakes = (predicted != batch.labels).long()
            wrong.index_add_(0, batch.labels, mistakes)
            seen.index_add_(0, batch.labels, torch.ones_like(mistakes))
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


@dataclass(frozen=True)
class SourceEvaluation:
    """What `scalednl eval` reports of a network."""

    source: str
    data: str
    images: int
    size: int | None
    """To which the shorter side of the images was resized"""
    reference_pixels: int | None
    test_error_pct: float
    test_loss: float | None
    """None if it is not finite"""
    class_error_pct: dict[str, float | None]
    """By the names of the classes; None for a class without test images"""


def evaluate_source(
    source: Path,
    name: str | None = None,
    limit: int | None = None,
    root: Path | None = None,
    *,
    size: int | None = None,
    reference_pixels: int | None = None,
) -> SourceEvaluation:
    """Test the network of a run directory, a weights file or a name, as `scalednl eval` does.

    With `size`, on images whose shorter side was resized to it.
    """
    check_at_least(1, limit=limit, size=size, reference_pixels=reference_pixels)
    experiment, model = source_experiment(source, name, root), source_model(source)
    if experiment is None:
        raise UsageError(f"{source} does not name the data set it was trained on: add --data NAME")
    if name is None:
        check_folder_is_there(experiment.data, source)
    data = experiment_data(replace(experiment, limit=None, test_limit=None), root)
    check_at_most(len(data.test), "test images", limit=limit)
    check_classes(source, model, data)
    data = data.limited(None, limit or experiment.test_limit, experiment.seed)
    batches = test_batches(experiment, data)
    if reference_pixels is not None:
        model = with_reference_pixels(model, reference_pixels)
    network: nn.Module = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if size is not None:
        network = nn.Sequential(ResizeShorterSide(size), network)
    try:
        found = evaluate(network, batches, len(data.class_names))
    except (ValueError, RuntimeError) as error:
        if size is None:
            raise
        reason = "there is not enough memory" if "allocate" in str(error) else error
        raise UsageError(f"--size {size} does not fit the network: {reason}") from error
    return SourceEvaluation(
        source=str(source),
        data=experiment.data,
        images=found.images,
        size=size,
        reference_pixels=reference_pixels,
        test_error_pct=found.error_pct,
        test_loss=found.loss if math.isfinite(found.loss) else None,
        class_error_pct=dict(zip(data.class_names, found.class_error_pct, strict=True)),
    )


class ResizeShorterSide(nn.Module):
    """Images whose shorter side has this many pixels; bilinear, with antialiasing."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, images: Images) -> Images:
        """Height and width keep their ratio."""
        height, width = images.shape[2:]
        zoom = self.size / min(height, width)
        space = [round(height * zoom), round(width * zoom)]
        return F.interpolate(images, space, mode="bilinear", antialias=True)


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
