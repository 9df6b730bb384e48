"""One experiment in one run directory: started, resumed, or found finished."""

import shutil
import warnings
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import torch

from scalednl.errors import CommandError, UsageError
from scalednl.files import replacing, sha256_of, writing_to
from scalednl.lab.config import Experiment, RunSettings
from scalednl.lab.config.folder import check_folder_is_there
from scalednl.lab.data.folder_cache import with_images
from scalednl.lab.machine import use_threads
from scalednl.lab.records.run import Result, RunFolder, RunSetup, Status
from scalednl.lab.signals import watching_signals
from scalednl.lab.streams import lasting_output
from scalednl.lab.training.checkpoint import has_checkpoint, load_checkpoint, newest_weights
from scalednl.lab.training.devices import is_first_process, launch
from scalednl.lab.training.display import Display
from scalednl.lab.training.loop import Trainer
from scalednl.lab.training.parts import prepare
from scalednl.lab.training.run_writer import RunWriter
from scalednl.lab.training.setup import with_possible_batch
from scalednl.lab.user_code import check_code

NOTICE = b"\nStopping after this step; the run can be resumed. Interrupt again to end at once.\n"


@dataclass(frozen=True)
class RunOutcome:
    """How a call of `run` ended."""

    status: Status
    result: Result
    signal: int = 0
    """The signal that interrupted it"""


def run(
    experiment: Experiment,
    path: Path,
    settings: RunSettings | None = None,
    *,
    root: Path | None = None,
    quiet: bool = False,
) -> RunOutcome:
    """Train an experiment into a run directory, resuming what is there.

    The result is the same to the bit, however often it was interrupted.
    """
    settings = settings or RunSettings()
    folder = RunFolder(path)
    check_code(experiment.code, experiment.own_names)
    experiment = with_possible_batch(with_images(experiment, root))
    ended = _ended(folder, experiment)
    if ended is not None:
        return _with_weights(ended, folder, Display(experiment.epochs, quiet))
    if folder.exists():
        check_folder_is_there(experiment.data, path)
    # Before anything is written.
    pretrained = not has_checkpoint(folder.checkpoints)
    data, network, fabric = prepare(experiment, settings, root, pretrained=pretrained)
    with ExitStack() as held:
        held.enter_context(lasting_output())
        held.enter_context(warnings.catch_warnings())
        # torch's note on layouts of 1x1 weights, once per rank; it costs nothing here.
        warnings.filterwarnings("ignore", message="Grad strides do not match")
        stop = held.enter_context(watching_signals(NOTICE if is_first_process() else b""))
        if is_first_process():
            with writing_to(path):
                path.mkdir(parents=True, exist_ok=True)
                (path / ".lock").touch()
            held.enter_context(folder.locked())
            ended = _ended(folder, experiment)
            if ended is not None:
                return ended
        launch(fabric)
        # A launcher may have set its own number.
        use_threads(settings.threads)
        display = Display(experiment.epochs, quiet or fabric.global_rank != 0)
        trainer = Trainer(experiment, data, network, fabric, compiled=settings.compile)
        writer = held.enter_context(closing(RunWriter(folder, settings, trainer, data, root)))
        before = _sessions(folder)
        resumed = _resume(trainer, folder, writer.setup(), display)
        trainer.state.sessions = max(before, trainer.state.sessions if resumed else 0) + 1
        _check_ranks(trainer, path)
        writer.begin(resumed=resumed)
        fabric.barrier()
        status = trainer.run(writer, stop, display)
        result = writer.finish(status)
    return RunOutcome(status, result, stop.signal)


def _ended(folder: RunFolder, experiment: Experiment) -> RunOutcome | None:
    """The outcome of a run that has ended here; raises if the folder has another experiment."""
    if not folder.exists():
        if folder.checkpoints.exists():
            raise CommandError(
                f"{folder.path} has checkpoints but no config.json that describes them: choose "
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
    if result is None:
        return None
    folder.check_config(result.config_sha256)
    return RunOutcome(result.status, result) if result.status in ("finished", "diverged") else None


def _with_weights(ended: RunOutcome, folder: RunFolder, display: Display) -> RunOutcome:
    """Write the final weights of a finished run again if they are gone or were changed.

    The last checkpoint has the same ones.
    """
    recorded, path = ended.result.weights_sha256, folder.weights
    if ended.status != "finished" or not is_first_process():
        return ended
    if path.is_file() and recorded in (None, sha256_of(path)):
        return ended
    stored = newest_weights(folder.checkpoints)
    if stored is None or recorded not in (None, sha256_of(stored)):
        return ended
    with writing_to(path), folder.locked(), replacing(path) as temporary:
        shutil.copyfile(stored, temporary)
    display.say(f"{path} was missing or changed: written again from the last checkpoint")
    return ended


def _resume(trainer: Trainer, folder: RunFolder, setup: RunSetup, display: Display) -> bool:
    """Restore the last checkpoint; returns whether there is one."""
    checkpoint = load_checkpoint(folder.checkpoints)
    if checkpoint is None:
        return False
    if checkpoint.state.get("config_sha256") not in (None, folder.config_sum()):
        raise CommandError(
            f"{checkpoint.path} belongs to another config.json than the one in {folder.path}: "
            "restore what was changed, or train into another folder with --out"
        )
    _compare(folder, setup, display)
    trainer.restore(checkpoint)
    step, steps = trainer.state.step, len(trainer.batches)
    where = f"step {step + 1} of {steps}" if step < steps else "its end"
    display.say(f"{folder.path}: resuming at epoch {trainer.state.epoch + 1}, {where}")
    return True


def _sessions(folder: RunFolder) -> int:
    """Processes so far, also those that ended before they wrote a checkpoint."""
    try:
        result = folder.read_result()
    except CommandError:
        return 0
    return 0 if result is None else result.sessions


def _compare(folder: RunFolder, setup: RunSetup, display: Display) -> None:
    """Raise if the setup makes it another experiment; report what changes its last digits."""
    _, before = folder.read_config()
    for name in ("train_images", "test_images"):
        old, new = getattr(before, name), getattr(setup, name)
        if old != new:
            raise UsageError(
                f"{folder.path} was started with {name} {old} and cannot be resumed with {new}"
            )
    for name in ("device", "world", "threads"):
        old, new = getattr(before, name), getattr(setup, name)
        if old != new:
            display.say(
                f"started with {name} {old}, resumed with {new}: the last digits of the result "
                "depend on this"
            )


def _check_ranks(trainer: Trainer, path: Path) -> None:
    """Raise unless all ranks have read the same checkpoint, before rank 0 writes another."""
    fabric = trainer.fabric
    if fabric.world_size > 1:
        step = torch.tensor([trainer.state.global_step], device=fabric.device)
        steps = [torch.zeros_like(step) for _ in range(fabric.world_size)]
        torch.distributed.all_gather(steps, step)
        if len({int(found) for found in steps}) > 1:
            raise CommandError(
                f"the processes see different checkpoints in {path}: choose a folder with --out "
                "that all machines share"
            )
