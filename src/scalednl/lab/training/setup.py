"""Data and network at the start of an experiment."""

import random
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from scalednl.config import TIMM, ModelConfig, is_foreign
from scalednl.errors import CommandError, UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.config.folder import is_folder
from scalednl.lab.config.limits import check_at_most
from scalednl.lab.console import counted, notice
from scalednl.lab.data import ImageData, load_data
from scalednl.lab.data.augment import CentreCrop, Crop, PaddedCrop, ResizedCrop
from scalednl.lab.data.batches import Batches
from scalednl.lab.paper.costs import train_images
from scalednl.lab.recipes import PRETRAIN
from scalednl.lab.seeds import derive_seed
from scalednl.lab.training.devices import is_first_process
from scalednl.lab.training.trained import source_folder, weights_file
from scalednl.lab.training.trial import check_parts, check_scores, check_step
from scalednl.models.checkpoint_file import read_checkpoint
from scalednl.models.foreign_network import config_of, insert_stacks, make_foreign, make_network
from scalednl.models.weights import describes_network, read_weights

TRIED = 4
"""Images on which a network from elsewhere is tried"""
Images = Float[Tensor, "batch 3 height width"]


def experiment_data(experiment: Experiment, root: Path | None) -> ImageData:
    """The images of an experiment, as many as it asks for."""
    data = load_data(experiment.data, root, experiment.data_options, experiment.seed)
    check_at_most(len(data.train), "training images", limit=experiment.limit)
    check_at_most(len(data.test), "test images", test_limit=experiment.test_limit)
    return data.limited(experiment.limit, experiment.test_limit, experiment.seed)


def with_possible_batch(experiment: Experiment) -> Experiment:
    """The experiment with all training images in one step if a batch would need more of them.

    Only of the user's own images, whose number no recipe could know.
    """
    images = train_images(experiment)
    if not is_folder(experiment.data) or not 0 < images < experiment.batch:
        return experiment
    _say(
        f"a step takes all {counted(images, 'training image')}: --batch {experiment.batch} is more "
        "than there are"
    )
    return replace(experiment, batch=images)


def _say(text: str) -> None:
    if is_first_process():
        notice(text)


def check_batch(experiment: Experiment, data: ImageData, world: int) -> None:
    """Raise unless the images fill a batch, and every process gets an image of it."""
    batch = experiment.batch
    check_at_most(len(data.train), "training images", batch=batch)
    if batch < world:
        raise UsageError(f"--batch must be at least {world}, the number of processes, got {batch}")


def train_crop(experiment: Experiment) -> Crop:
    """The data set's own augmentation, or none."""
    if not experiment.augment:
        return test_crop(experiment)
    side = experiment.facts.crop_side
    mirror = experiment.folder.mirror if is_folder(experiment.data) else True
    return PaddedCrop(4, mirror) if side is None else ResizedCrop(side, mirror)


def test_crop(experiment: Experiment) -> Crop:
    """The middle of images that networks see as crops; the complete image otherwise."""
    side = experiment.facts.crop_side
    return PaddedCrop(0, mirror=False) if side is None else CentreCrop(side)


def initial_model(
    experiment: Experiment, num_classes: int, images: Images | None = None
) -> nn.Module:
    """A new network, from a random stream of its own.

    The backbone is made before the blocks, so it is the same with every kind of block. A network
    from elsewhere needs some of the images, on which it is tried.
    """
    config = ModelConfig(
        *(experiment.model, num_classes, experiment.stack, experiment.position),
        dropout=experiment.dropout,
    )
    try:
        with initial_numbers(experiment.seed):
            if not is_foreign(config.name):
                return make_network(config)
            assert images is not None
            return _foreign_model(experiment, num_classes, images)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _foreign_model(experiment: Experiment, num_classes: int, images: Images) -> nn.Module:
    name = experiment.model
    config = ModelConfig(name, num_classes, experiment.stack, experiment.has_position)
    network = make_foreign(name, num_classes)
    if name.startswith(TIMM) and "." in name:
        _say(
            f"{name} is trained from new weights, not from those of its tag: --finetune --weights "
            "FILE starts from a checkpoint"
        )
    check_parts(network, name)
    check_scores(network, name, images, num_classes)
    try:
        insert_stacks(network, config, experiment.at, images)
    except (ValueError, RuntimeError) as error:
        place = f"--at {' '.join(experiment.at)}: " if experiment.at else ""
        raise UsageError(place + str(error)) from error
    return network


@contextmanager
def initial_numbers(seed: int) -> Iterator[None]:
    """The random numbers of a network's first weights; afterwards those before continue."""
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()
    seed_random_numbers(derive_seed(seed, "init"))
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        np.random.set_state(before[2])


def seed_random_numbers(seed: int) -> None:
    """Seed all generators that the code of a network may use."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def example_images(experiment: Experiment, data: ImageData) -> Images:
    """A few images as the network sees them."""
    split, crop = data.train, test_crop(experiment)
    batches = Batches(data, split, min(TRIED, len(split)), crop, shuffle=False)
    return next(batches.epoch(0)).images


def try_step(network: nn.Module, experiment: Experiment, data: ImageData, world: int) -> None:
    """Raise unless a network from elsewhere can be trained on the smallest part of an epoch."""
    if is_foreign(experiment.model):
        images = example_images(experiment, data)
        fewest = min(smallest_part(experiment, len(data.train), world), len(images))
        check_step(network, experiment.model, images[:fewest], world)


def smallest_part(experiment: Experiment, images: int, world: int) -> int:
    """The fewest images that a forward pass in training gets."""
    last = images % experiment.batch
    # A rest too small to share joins the batch before.
    counts = [experiment.batch, *([last] if last >= world else [])]
    shares = [count // world for count in counts]
    return min(share // min(experiment.accumulate, share) for share in shares)


def pretrained_file(experiment: Experiment) -> Path:
    """The file with the weights to fine-tune."""
    if experiment.weights is None:
        raise UsageError(
            f"{experiment.recipe} starts from a trained network: add --weights RUN, a run such as "
            f"`scalednl train {PRETRAIN}` makes, or a file of scalednl.save_model"
        )
    path = Path(experiment.weights)
    folder, found = source_folder(path), weights_file(path)
    if folder.exists() and found != folder.weights:
        warnings.warn(
            f"{path} has no final weights: fine-tuning starts from its checkpoint "
            f"{found.parent.name}; has it finished?",
            stacklevel=3,
        )
    return found


def load_pretrained(model: nn.Module, experiment: Experiment) -> None:
    """Load the weights to fine-tune into everything but the new blocks, which keep theirs."""
    path, config = pretrained_file(experiment), config_of(model)
    assert config is not None
    try:
        if is_foreign(config.name) and not describes_network(path):
            weights, of = _without_classifier(read_checkpoint(path), model), "another network"
            advice = ""
        else:
            weights, found = read_weights(path)
            of = f"{found.name} with {found.num_classes} classes"
            advice = "" if found.name == config.name else f"; try --model {found.name}"
            if found.count:
                raise CommandError(
                    f"{path} has blocks of its own: fine-tuning starts from a network without "
                    "blocks"
                )
    except ValueError as error:
        raise CommandError(str(error)) from error
    expected = {
        name: value
        for name, value in model.state_dict().items()
        if name in weights or not name.startswith(config.stacks)
    }
    wrong = [
        name
        for name in expected.keys() | weights.keys()
        if name not in weights
        or name not in expected
        or weights[name].shape != expected[name].shape
    ]
    if wrong:
        raise CommandError(
            f"{path} is of {of}, but this run trains {config.name} with {config.num_classes}: "
            f"{min(wrong)} does not fit{advice}"
        )
    model.load_state_dict(weights, strict=False)


def _without_classifier(weights: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Weights of any checkpoint, but those of one module for another number of classes."""
    expected = model.state_dict()
    changed = {
        name for name in weights if name in expected and weights[name].shape != expected[name].shape
    }
    if len({name.rpartition(".")[0] for name in changed}) != 1:
        return dict(weights)
    return {name: expected[name] if name in changed else weights[name] for name in weights}
