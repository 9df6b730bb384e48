"""Data and network at the start of an experiment."""

import warnings
from pathlib import Path

import torch

from scalednl.errors import CommandError, UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.config.data_sets import DATA_SETS
from scalednl.lab.config.limits import check_at_most
from scalednl.lab.data import ImageData, load_data
from scalednl.lab.data.augment import CentreCrop, Crop, PaddedCrop, ResizedCrop
from scalednl.lab.recipes import PRETRAIN
from scalednl.lab.seeds import derive_seed
from scalednl.lab.training.trained import source_folder, weights_file
from scalednl.models.registry import create_model
from scalednl.models.residual import ResidualNetwork
from scalednl.models.weights import read_weights


def experiment_data(experiment: Experiment, root: Path | None) -> ImageData:
    """The images of an experiment, as many as it asks for."""
    data = load_data(experiment.data, root, experiment.generated, experiment.seed)
    check_at_most(len(data.train), "training images", limit=experiment.limit)
    check_at_most(len(data.test), "test images", test_limit=experiment.test_limit)
    return data.limited(experiment.limit, experiment.test_limit, experiment.seed)


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
    side = DATA_SETS[experiment.data].crop_side
    return PaddedCrop(4) if side is None else ResizedCrop(side)


def test_crop(experiment: Experiment) -> Crop:
    """The middle of images that networks see as crops; the complete image otherwise."""
    side = DATA_SETS[experiment.data].crop_side
    return PaddedCrop(0, mirror=False) if side is None else CentreCrop(side)


def initial_model(experiment: Experiment, num_classes: int) -> ResidualNetwork:
    """A new network, from a random stream of its own.

    The backbone is made before the blocks, so it is the same with every kind of block.
    """
    state = torch.get_rng_state()
    torch.manual_seed(derive_seed(experiment.seed, "init"))
    try:
        return create_model(
            *(experiment.model, num_classes, experiment.stack, experiment.position),
            dropout=experiment.dropout,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    finally:
        torch.set_rng_state(state)


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


def load_pretrained(model: ResidualNetwork, experiment: Experiment) -> None:
    """Load the weights to fine-tune into everything but the new blocks, which keep theirs."""
    path = pretrained_file(experiment)
    try:
        weights, config = read_weights(path)
    except ValueError as error:
        raise CommandError(str(error)) from error
    assert model.config is not None
    if config.blocks is not None and config.blocks.count:
        raise CommandError(
            f"{path} has blocks of its own: fine-tuning starts from a network without blocks"
        )
    expected = model.state_dict()
    missing = {name for name in expected.keys() - weights.keys() if not name.startswith("stack.")}
    extra = weights.keys() - expected.keys()
    common = expected.keys() & weights.keys()
    changed = {name for name in common if expected[name].shape != weights[name].shape}
    if missing or extra or changed:
        example = sorted(missing | extra | changed)[0]
        advice = "" if config.name == model.config.name else f"; try --model {config.name}"
        raise CommandError(
            f"{path} is of {config.name} with {config.num_classes} classes, but this run trains "
            f"{model.config.name} with {model.config.num_classes}: {example} does not fit{advice}"
        )
    model.load_state_dict(weights, strict=False)
