"""One experiment in one run directory: begun, gone on with, or found finished."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from scalednl.config import Experiment, RunSettings
from scalednl.data import ImageData
from scalednl.errors import CommandError, UsageError
from scalednl.records.run import RunFolder, Status
from scalednl.train.devices import is_first_process, launch, make_fabric
from scalednl.train.events import Events
from scalednl.train.initial import (
    experiment_data,
    initial_model,
    load_backbone,
    pretrained_file,
)
from scalednl.train.keeper import Keeper
from scalednl.train.loop import Trainer
from scalednl.train.show import Display
from scalednl.train.signals import watching_signals


@dataclass(frozen=True)
class Outcome:
    """How a call of `run` ended."""

    status: Status
    result: dict[str, Any]
    signal: int = 0
    """What interrupted it"""


def run(
    experiment: Experiment,
    path: Path,
    settings: RunSettings | None = None,
    *,
    root: Path | None = None,
    quiet: bool = False,
) -> Outcome:
    """Train an experiment into a run directory, from where it stands there.

    The result is the same, to the bit, however often it was interrupted on the way.
    """
    settings = settings or RunSettings()
    folder = RunFolder(path)
    before = _before(folder, experiment)
    if before is not None:
        return before
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    # Whatever cannot work fails here, before anything is written.
    data = experiment_data(experiment, root)
    network = initial_model(experiment, len(data.class_names))
    if experiment.finetune and not folder.exists():
        load_backbone(network, pretrained_file(experiment))
    fabric = make_fabric(settings)
    with ExitStack() as held:
        if is_first_process():
            _make(folder)
            held.enter_context(folder.locked())
        launch(fabric)
        display = Display(experiment.epochs, quiet or fabric.global_rank != 0)
        trainer = Trainer(experiment, data, network, fabric, compiled=settings.compile)
        keeper = held.enter_context(_keeping(folder, settings, trainer, data, display))
        stop = held.enter_context(watching_signals())
        keeper.begin()
        status = trainer.run(keeper, stop, display)
        result = keeper.finish(status)
    return Outcome(status, result, stop.signal)


def _before(folder: RunFolder, experiment: Experiment) -> Outcome | None:
    """The outcome of a run that has ended here; an error if another experiment lives here."""
    if not folder.exists():
        return None
    here, _ = folder.read_config()
    if here != experiment:
        changes = "; ".join(experiment.differences(here)[:4])
        raise UsageError(
            f"{folder.path} holds another experiment ({changes}): choose another folder with --out"
        )
    result = folder.read_result()
    if result is not None and result["status"] in ("finished", "diverged"):
        return Outcome(result["status"], result)
    return None


def _make(folder: RunFolder) -> None:
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        (folder.path / ".lock").touch()
    except OSError as error:
        raise CommandError(
            f"{folder.path} cannot be written ({error.strerror}): choose another folder with --out"
        ) from error


@contextmanager
def _keeping(
    folder: RunFolder, settings: RunSettings, trainer: Trainer, data: ImageData, display: Display
) -> Iterator[Keeper]:
    events = None
    if settings.tensorboard and trainer.fabric.global_rank == 0:
        events = Events(folder.path)
    try:
        yield Keeper(folder, settings, trainer, data, display, events)
    except OSError as error:
        raise CommandError(
            f"{folder.path} could not be written ({error.strerror or error}): the last checkpoint "
            "is kept, and the same command goes on from it"
        ) from error
    finally:
        if events is not None:
            events.close()
