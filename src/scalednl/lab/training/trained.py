"""Opening what was trained: the experiment, weights and network of a source.

A source is a run directory, a weights file, or the name of a network that comes with the package.
"""

from dataclasses import replace
from pathlib import Path

from torch import nn

from scalednl.errors import CommandError, UsageError
from scalednl.files import sha256_of
from scalednl.lab.config import Experiment, FolderConfig
from scalednl.lab.config.folder import is_folder
from scalednl.lab.data import ImageData
from scalednl.lab.data.folder_cache import with_images
from scalednl.lab.records.run import RunFolder
from scalednl.lab.training.checkpoint import newest_weights
from scalednl.lab.user_code import advice, check_code
from scalednl.models import published
from scalednl.models.foreign_network import UnknownNetworkError, config_of, make_network
from scalednl.models.weights import load_model


def source_folder(source: Path) -> RunFolder:
    """The run directory of a source, which does not exist if the source is something else."""
    try:
        return RunFolder(published.find_weights(source))
    except (ValueError, OSError):
        return RunFolder(source)


def source_experiment(
    source: Path, data: str | None, root: Path | None = None
) -> Experiment | None:
    """The experiment of a run, or one on the data set that is named; None if neither is known."""
    folder = source_folder(source)
    experiment = folder.read_config()[0] if folder.exists() else None
    if data is not None and is_folder(data):
        return _on_folder(experiment, data, root)
    if data is None or (experiment is not None and data == experiment.data):
        return experiment
    return Experiment(data=data)


def _on_folder(trained: Experiment | None, data: str, root: Path | None) -> Experiment:
    """A folder of images as a network was trained to see images: its side, its normalisation."""
    if trained is None:
        return with_images(Experiment(data=data), root, to_train=False)
    facts = trained.facts
    options = replace(trained.folder, found=None)
    if not is_folder(trained.data):
        options = FolderConfig(side=facts.input_side or FolderConfig.side, augmentation="padded")
    other = with_images(Experiment(data=data, folder=options), root, to_train=False)
    found = other.folder.found
    assert found is not None
    if trained.folder.found is not None and trained.folder.found.content == found.content:
        return replace(trained, data=data)
    options = replace(options, found=replace(found, mean=facts.mean, std=facts.std))
    return replace(other, folder=options)


def recorded_classes(source: Path) -> tuple[str, ...]:
    """The names of the classes that a run was trained on; none for a weights file."""
    folder = source_folder(source)
    return folder.read_config()[1].class_names if folder.exists() else ()


def weights_file(source: Path) -> Path:
    """The weights of a run directory or a name, or the file itself."""
    try:
        found = published.find_weights(source)
        is_folder, is_file = found.is_dir(), found.is_file()
    except OSError as error:
        raise CommandError(f"{source} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CommandError(str(error)) from error
    if is_folder:
        return _run_weights(RunFolder(found))
    if not is_file:
        raise CommandError(f"{source} is neither a file nor a folder")
    return found


def _run_weights(run: RunFolder) -> Path:
    """The final weights of a run, or those of its last checkpoint."""
    found = run.weights if run.weights.is_file() else newest_weights(run.checkpoints)
    if found is None:
        raise CommandError(f"{run.path} contains no weights: is it a run directory?")
    if found == run.weights:
        _check_weights(run)
    return found


def _check_weights(run: RunFolder) -> None:
    """Raise if the weights are not those that the training wrote."""
    try:
        result = run.read_result()
    except CommandError:
        return
    recorded = None if result is None else result.weights_sha256
    if recorded is not None and recorded != sha256_of(run.weights):
        is_ours = run.path.parent == published.FOLDER
        raise CommandError(
            f"{run.weights} was changed after the training: "
            + (
                "install scalednl again"
                if is_ours
                else f"`scalednl train {run.path}` writes it again from the last checkpoint"
            )
        )


def source_model(source: Path) -> nn.Module:
    """The network of a source, in float32 as images are, whatever its file has."""
    folder = source_folder(source)
    if folder.exists():
        check_code(folder.read_config()[0].code)
    try:
        return load_model(weights_file(source)).float()
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


def check_class_count(source: Path, model: nn.Module, name: str, classes: int) -> None:
    """Raise unless a network has as many classes as the data of this name."""
    config = config_of(model)
    assert config is not None
    if config.num_classes != classes:
        raise CommandError(
            f"{source} was trained on {config.num_classes} classes, but {name} has {classes}"
        )


def check_classes(source: Path, model: nn.Module, data: ImageData) -> None:
    """Raise unless a network has the classes of the data."""
    check_class_count(source, model, data.name, len(data.class_names))
    names = recorded_classes(source)
    if is_folder(data.name) and names and names != tuple(data.class_names):
        pairs = zip(names, data.class_names, strict=True)
        old, new = next((old, new) for old, new in pairs if old != new)
        raise CommandError(
            f"{source} was trained on the class {old}, where {data.name} has {new}: the folders of "
            "the classes must have the same names"
        )
