"""A trained network, and the images on which its attention is scored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor, nn

from scalednl.errors import CommandError, UsageError
from scalednl.inspection.capture import nonlocal_blocks
from scalednl.lab.attention.picture import PhotoSize, Picture, photo_picture
from scalednl.lab.attention.read_photo import is_picture
from scalednl.lab.config import Experiment
from scalednl.lab.config.data_sets import DATA_SETS, DataFacts, find_data_set
from scalednl.lab.config.folder import check_folder_is_there, is_folder
from scalednl.lab.config.limits import check_at_least
from scalednl.lab.data import ImageData
from scalednl.lab.data.augment import Normaliser
from scalednl.lab.data.batches import Batches
from scalednl.lab.data.gratings import turn_names
from scalednl.lab.data.splits import Labels
from scalednl.lab.training.evaluate import TEST_BATCH
from scalednl.lab.training.setup import experiment_data, test_crop
from scalednl.lab.training.trained import (
    check_class_count,
    check_classes,
    recorded_classes,
    source_experiment,
    source_folder,
    source_model,
)
from scalednl.models.foreign_network import config_of

BATCH = 50
IMAGES = 6
"""Test images that are shown"""
SMALLEST = 8
"""Pixels of the shorter side that --resize may ask for"""
DEFAULT_NORMALISATION = "cifar10"
"""Data set that normalises photos if the training data of a network is unknown"""


@dataclass(frozen=True)
class NetworkSource:
    """A network, the pictures to show of it, and the images to score it on."""

    path: Path
    """The run directory or weights file"""
    model: nn.Module
    experiment: Experiment | None
    info: DataFacts
    class_names: Sequence[str]
    pictures: Sequence[Picture]
    batches: Batches | None
    """The images to score; None: the pictures themselves"""
    tested: Batches | None
    """The test images on which the network is tested with its maps replaced; None for photos"""

    @property
    def name(self) -> str:
        """The name of the run or file, without its folder."""
        return self.path.resolve().name

    @property
    def shows_generated_images(self) -> bool:
        """Whether its pictures are of a generated data set."""
        generated = self.experiment is not None and self.experiment.generated is not None
        return generated and self.batches is not None

    def input_of(self, picture: Picture) -> Tensor:
        """A batch of one."""
        normalise = Normaliser(self.info.mean, self.info.std, torch.device("cpu"))
        return normalise(torch.from_numpy(picture.pixels)[None])

    def scored(self) -> Iterator[Tensor]:
        """The images to score, in batches."""
        if self.batches is None:
            yield from (self.input_of(picture) for picture in self.pictures)
        else:
            yield from (batch.images for batch in self.batches.epoch(0))

    @property
    def images(self) -> int:
        """Number of images that are scored."""
        return len(self.pictures) if self.batches is None else self.batches.images


def open_source(
    path: Path,
    *,
    images: int = 500,
    test_images: int | None = None,
    photos: Sequence[Path] = (),
    resize: int | None = None,
    data: str | None = None,
    root: Path | None = None,
) -> NetworkSource:
    """The network of a run directory or a weights file, on test images or on photos.

    `images` are scored; the network is tested on `test_images`, or all there are if that is None.
    The shorter side of photos becomes `resize` pixels; if that is None, larger ones are reduced to
    the size of the training images.
    """
    check_at_least(1, images=images, test_images=test_images)
    check_at_least(SMALLEST, resize=resize)
    if resize is not None and not photos:
        raise UsageError(f"--resize {resize} is for photos: add --image PHOTO")
    if is_picture(path):
        raise UsageError(
            f"{path} is a picture, not a network: `scalednl attention RUN_OR_WEIGHTS --image "
            f"{path}` shows what a network sees in it"
        )
    info = None if data is None or is_folder(data) else find_data_set(data)
    experiment, model = source_experiment(path, data, root), _model_with_blocks(path)
    if experiment is None and not photos:
        raise UsageError(
            f"{path} does not name the data set it was trained on: add --data NAME, or --image "
            "PHOTO"
        )
    info = info or (experiment.facts if experiment else DATA_SETS[DEFAULT_NORMALISATION])
    if photos:
        made = experiment.generated if experiment else None
        classes = made.classes if made else info.classes
        if data is not None and classes and source_folder(path).exists():
            check_class_count(path, model, data, classes)
        names = _photo_classes(experiment, info.class_names or recorded_classes(path), model)
        size = _photo_size(experiment, info, resize)
        pictures = [photo_picture(photo, index, size) for index, photo in enumerate(photos)]
        return NetworkSource(path, model, experiment, info, names, pictures, None, None)
    assert experiment is not None
    if data is None:
        check_folder_is_there(experiment.data, path)
    # Without the run's own limits, so that all runs show the same images.
    found = experiment_data(replace(experiment, limit=None, test_limit=None), root)
    check_classes(path, model, found)
    pictures = _test_pictures(experiment, found)
    scored = _batches(experiment, found, images, BATCH)
    tested = _batches(experiment, found, test_images, TEST_BATCH)
    return NetworkSource(path, model, experiment, info, found.class_names, pictures, scored, tested)


def _model_with_blocks(path: Path) -> nn.Module:
    model = source_model(path)
    try:
        nonlocal_blocks(model)
    except ValueError as error:
        raise CommandError(f"{path} has nothing to show: {error}") from error
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def chosen_images(labels: Labels, count: int = IMAGES) -> list[int]:
    """The first image of every class, then the second ones, ...: `count` in all.

    They depend on the data set alone, so that networks can be shown side by side.
    """
    seen: dict[int, int] = {}
    turns = []
    for index, label in enumerate(labels.tolist()):
        turns.append((seen.get(label, 0), label, index))
        seen[label] = seen.get(label, 0) + 1
    return [index for _, _, index in sorted(turns)[:count]]


def _batches(experiment: Experiment, data: ImageData, count: int | None, batch: int) -> Batches:
    """Test images, the classes in their proportions; None: all."""
    split = data.test if count is None else data.test.subset(min(count, len(data.test)))
    return Batches(data, split, min(batch, len(split)), test_crop(experiment), shuffle=False)


def _test_pictures(experiment: Experiment, data: ImageData) -> list[Picture]:
    indices = chosen_images(data.test.labels)
    raw, crop = torch.from_numpy(data.test.images[indices]), test_crop(experiment)
    pixels = crop.cut(raw, crop.draw(len(indices), raw.shape[1], Generator()))
    return [
        Picture(
            pixels[number].numpy().astype(np.uint8),
            f"test image {index}",
            index,
            data.class_names[int(data.test.labels[index])],
        )
        for number, index in enumerate(indices)
    ]


def _photo_size(experiment: Experiment | None, info: DataFacts, resize: int | None) -> PhotoSize:
    """The size asked for, else that of the training images; CIFAR-10's if these are unknown."""
    made = experiment.generated if experiment else None
    height, width = (made.height, made.width) if made else (info.input_side,) * 2
    shorter = min(height, width)
    if resize is not None:
        other = experiment is not None and resize != shorter
        warning = f"but it was trained on {width} x {height}: its classes may mean little"
        return PhotoSize(resize, forced=True, reason=warning if other else "")
    reason = f"because it was trained on {width} x {height} (`--resize N` changes that)"
    if experiment is None:
        reason = f"as {info.words} has: the file does not name its data set, `--data NAME` does"
    return PhotoSize(shorter, forced=False, reason=reason)


def _photo_classes(
    experiment: Experiment | None, names: Sequence[str], model: nn.Module
) -> Sequence[str]:
    """The names of the classes, where they are known without the data set."""
    config = config_of(model)
    assert config is not None
    if experiment is not None and experiment.generated is not None:
        names = turn_names(experiment.generated.classes)
    known = experiment is not None and len(names) == config.num_classes
    return names if known else [f"class {k}" for k in range(config.num_classes)]
