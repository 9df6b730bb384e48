"""Opening what was trained: the experiment, weights and network of a run directory or a file."""

from dataclasses import replace
from pathlib import Path

from torch import nn

from scalednl.errors import CommandError, UsageError
from scalednl.files import sha256_of
from scalednl.lab.config import Experiment
from scalednl.lab.data import ImageData
from scalednl.lab.records.run import RunFolder
from scalednl.lab.training.checkpoint import newest_weights
from scalednl.lab.training.networks import advice, check_code
from scalednl.models.foreign_network import UnknownNetworkError, config_of, make_network
from scalednl.models.weights import load_model


def source_experiment(source: Path, data: str | None) -> Experiment | None:
    """The experiment of a run, or one on the data set that is named; None if neither is known."""
    folder = RunFolder(source)
    experiment = folder.read_config()[0] if folder.exists() else None
    if data is None or (experiment is not None and data == experiment.data):
        return experiment
    return Experiment(data=data)


def weights_file(source: Path) -> Path:
    """The weights of a run directory, or the file itself."""
    try:
        is_folder, is_file = source.is_dir(), source.is_file()
    except OSError as error:
        raise CommandError(f"{source} cannot be read: {error.strerror}") from error
    if is_folder:
        run = RunFolder(source)
        found = run.weights if run.weights.is_file() else newest_weights(run.checkpoints)
        if found == run.weights:
            _check_weights(run)
        if found is None:
            raise CommandError(f"{source} contains no weights: is it a run directory?")
        return found
    if not is_file:
        raise CommandError(f"{source} does not exist")
    return source


def _check_weights(run: RunFolder) -> None:
    """Raise if the weights are not those that the training wrote."""
    try:
        result = run.read_result()
    except CommandError:
        return
    recorded = None if result is None else result.weights_sha256
    if recorded is not None and recorded != sha256_of(run.weights):
        raise CommandError(
            f"{run.weights} was changed after the training: `scalednl train {run.path}` writes it "
            "again from the last checkpoint"
        )


def source_model(source: Path) -> nn.Module:
    """The network of a run directory or a weights file."""
    run = RunFolder(source)
    if run.exists():
        check_code(run.read_config()[0])
    try:
        return load_model(weights_file(source))
    except ValueError as error:
        unknown = error.__cause__
        hint = f": {advice(unknown.name)}" if isinstance(unknown, UnknownNetworkError) else ""
        raise CommandError(f"{error}{hint}") from error


def with_reference_pixels(model: nn.Module, pixels: int) -> nn.Module:
    """The same network with blocks whose branch does not grow with the size of the map.

    `pixels` is the number of keys at which they compute what they computed before.
    """
    config = config_of(model)
    if config is None or config.blocks is None or not config.count:
        raise UsageError("--reference-pixels is an option of blocks, and the network has none")
    try:
        block = replace(config.blocks.block, reference_pixels=pixels)
    except ValueError as error:
        raise UsageError(str(error)) from error
    other = make_network(replace(config, blocks=replace(config.blocks, block=block)))
    other.load_state_dict(model.state_dict())
    return other.eval()


def check_classes(source: Path, model: nn.Module, data: ImageData) -> None:
    """Raise unless a network has as many classes as the data."""
    config = config_of(model)
    assert config is not None
    if config.num_classes != len(data.class_names):
        raise CommandError(
            f"{source} was trained on {config.num_classes} classes, but {data.name} has "
            f"{len(data.class_names)}"
        )
