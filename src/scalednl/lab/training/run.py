"""One experiment in one run directory: begun, gone on with, or found finished."""

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scalednl.errors import CommandError, UsageError
from scalednl.files import writing_to
from scalednl.lab.config import Experiment, RunSettings
from scalednl.lab.machine import use_threads
from scalednl.lab.records.run import Result, RunFolder, Status
from scalednl.lab.signals import watching_signals
from scalednl.lab.training.devices import is_first_process, launch, make_fabric
from scalednl.lab.training.display import Display
from scalednl.lab.training.loop import Trainer
from scalednl.lab.training.run_writer import Keeper
from scalednl.lab.training.setup import (
    check_batch,
    experiment_data,
    initial_model,
    load_pretrained,
)
from scalednl.lab.training.tensorboard import Events

NOTICE = b"\nStopping after this step; the run can go on later. Once more to leave at once.\n"


@dataclass(frozen=True)
class Outcome:
    """How a call of `run` ended."""

    status: Status
    result: Result
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
    use_threads(settings.threads)
    # Whatever cannot work fails here, before anything is written.
    data = experiment_data(experiment, root)
    network = initial_model(experiment, len(data.class_names))
    if experiment.finetune and not folder.exists():
        load_pretrained(network, experiment)
    fabric = make_fabric(settings)
    check_batch(experiment, data, fabric.world_size)
    with ExitStack() as held:
        stop = held.enter_context(watching_signals(NOTICE if is_first_process() else b""))
        if is_first_process():
            _make(folder)
            held.enter_context(folder.locked())
            before = _before(folder, experiment)
            if before is not None:
                return before
        launch(fabric)
        # A launcher may have set its own number.
        use_threads(settings.threads)
        display = Display(experiment.epochs, quiet or fabric.global_rank != 0)
        trainer = Trainer(experiment, data, network, fabric, compiled=settings.compile)
        events = held.enter_context(_events(folder, settings, fabric.global_rank))
        keeper = Keeper(folder, settings, trainer, data, display, events, root)
        keeper.begin()
        status = trainer.run(keeper, stop, display)
        result = keeper.finish(status)
    return Outcome(status, result, stop.signal)


def _before(folder: RunFolder, experiment: Experiment) -> Outcome | None:
    """The outcome of a run that has ended here; an error if another experiment lives here."""
    if not folder.exists():
        if folder.checkpoints.exists():
            raise CommandError(
                f"{folder.path} has checkpoints but no config.json to say what they are of: choose "
                "another folder with --out"
            )
        return None
    here, _ = folder.read_config()
    if here.digest != experiment.digest:
        changes = "; ".join(experiment.differences(here)[:4])
        raise UsageError(
            f"{folder.path} holds another experiment ({changes}): choose another folder with --out"
        )
    try:
        result = folder.read_result()
    except CommandError as error:
        warnings.warn(f"{error}; it is written again", stacklevel=3)
        return None
    if result is not None and result.status in ("finished", "diverged"):
        return Outcome(result.status, result)
    return None


def _make(folder: RunFolder) -> None:
    with writing_to(folder.path):
        folder.path.mkdir(parents=True, exist_ok=True)
        (folder.path / ".lock").touch()


@contextmanager
def _events(folder: RunFolder, settings: RunSettings, rank: int) -> Iterator[Events | None]:
    if rank or not settings.tensorboard:
        yield None
        return
    events = Events(folder.path)
    try:
        yield events
    finally:
        events.close()
