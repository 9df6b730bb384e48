"""A run directory: the only interface between training and its readers.

config.json     the experiment, how it was run, and where
epochs.jsonl    one line for each finished epoch
result.json     status, errors, time, origin
checkpoints/    the last two, to resume from
weights.safetensors   the network after the last epoch
predictions.npy       the class it predicts for every test image, after the last test
attention/      what its blocks attend to, written by `scalednl attention`
events.*        TensorBoard
"""

import hashlib
import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from filelock import FileLock, Timeout

from scalednl.errors import CommandError, first_line
from scalednl.files import read_bytes, replacing, write_json, write_text, writing_to
from scalednl.lab.config import Experiment
from scalednl.lab.config.experiment import PRECISIONS
from scalednl.lab.records.origin import Origin
from scalednl.lab.records.typed_json import (
    LARGEST_FILE,
    decode_record,
    plain_values,
    read_record,
    write_record,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SCHEMA = 1
LOCK_SECONDS = 0.5
"""To wait for the lock of a run directory"""
MOST_EPOCHS = 20_000
"""Lines of epochs.jsonl"""
LARGEST_PREDICTIONS = 64 << 20
"""Bytes; the largest test set there is has 10,000 images"""
Status = Literal["running", "interrupted", "diverged", "finished"]
"""What a training writes about itself; `records.runs.State` is what a reader makes of it"""
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
FEW = msgspec.Meta(max_length=100_000)
"""Classes"""


@dataclass(frozen=True)
class RunSetup:
    """How an experiment was run: what may change its last digits, and where it was done."""

    settings: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    """The options of `RunSettings`, which checks them against the machine that resumes"""
    root: str | None = None
    """Folder of the data sets; None: the default one"""
    device: str = ""
    world: Count = 1
    """Processes"""
    precision: str = "32-true"
    """As Lightning Fabric names it"""
    threads: Count | None = None
    memory_format: str = "channels_last"
    train_images: Count | None = None
    test_images: Count | None = None
    class_names: tuple[str, ...] = ()
    origin: Origin = field(default_factory=Origin)
    weights_sha256: str | None = None
    """The hash of the file that a fine-tuned run began from"""


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One line of epochs.jsonl."""

    schema: int = SCHEMA
    epoch: Count
    """Counted from 0"""
    lr: float = 0.0
    train_loss: float = 0.0
    train_error_pct: Percent = 0.0
    test_loss: float | None = None
    """None, like the errors, where the network was not tested after this epoch"""
    test_error_pct: Percent | None = None
    class_error_pct: Annotated[tuple[Percent | None, ...], FEW] | None = None
    seconds: Amount = 0.0
    """Time of training and testing, up to here"""
    images_per_second: Amount = 0.0


@dataclass(frozen=True)
class ErrorSummary:
    """Test error in percent after the last tested epoch and after the best."""

    last: Percent | None = None
    best: Percent | None = None
    best_epoch: Count | None = None
    """Counted from 0"""


@dataclass(frozen=True)
class Position:
    """A step of a training; all are counted from 0."""

    epoch: Count
    step: Count
    global_step: Count


@dataclass(frozen=True, kw_only=True)
class Result:
    """result.json: how far a run came, and what came out."""

    schema: int = SCHEMA
    status: Status
    recipe: str = ""
    seed: int = 0
    test_error_pct: ErrorSummary = field(default_factory=ErrorSummary)
    test_loss: float | None = None
    train_loss: float | None = None
    class_error_pct: dict[str, Percent | None] | None = None
    epochs: Count = 0
    """Finished"""
    steps: Count = 0
    diverged_at: Position | None = None
    seconds: Amount = 0.0
    images_per_second: Amount | None = None
    peak_memory_mb: Amount | None = None
    parameters: Count | None = None
    sessions: Count = 1
    """Processes that worked on it, one after the other"""
    config_sha256: str | None = None
    """The hash of the configuration that it was started with"""
    weights_sha256: str | None = None
    """The hash of the final weights"""
    origin: Origin = field(default_factory=Origin)


@dataclass(frozen=True)
class _ConfigFile:
    experiment: dict[str, Any]
    """`Experiment.from_dict` checks it, names included"""
    run: RunSetup


class BusyError(CommandError):
    """Another process trains in a run directory."""


class RunFolder:
    """Reads and writes the files of a run; reads only regular files that are inside of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.weights = path / "weights.safetensors"
        self.attention = path / "attention"

    def exists(self) -> bool:
        """Whether a run was begun here."""
        try:
            return (self.path / "config.json").is_file()
        except OSError:
            return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; the system releases the lock however this process ends."""
        lock = FileLock(self.path / ".lock")
        with writing_to(self.path / ".lock"):
            try:
                # Whoever asks whether it is taken may hold it for a moment.
                lock.acquire(timeout=LOCK_SECONDS, poll_interval=LOCK_SECONDS / 20)
            except Timeout:
                raise BusyError(
                    f"{self.path} is being trained by another process: wait for it, or choose "
                    "another folder with --out"
                ) from None
        try:
            yield
        finally:
            lock.release()

    def is_locked(self) -> bool:
        """Whether a process trains here now; asking writes nothing, and many may ask at once."""
        path = self.path / ".lock"
        if path.is_symlink() or not path.is_file():
            return False
        try:
            if sys.platform == "win32":
                with self.locked():
                    return False
            import fcntl

            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (OSError, BusyError):
            # It is locked, or of another user and cannot be opened from here.
            return True
        return False

    def write_config(self, experiment: Experiment, setup: RunSetup) -> None:
        """Write what is trained, and how."""
        run = plain_values(setup)
        value = {"schema": SCHEMA, "experiment": experiment.as_dict(), "run": run}
        write_json(self.path / "config.json", value)

    def read_config(self) -> tuple[Experiment, RunSetup]:
        """The experiment of this run, and how it was run."""
        path = self.path / "config.json"
        try:
            found = read_record(path, _ConfigFile, schema=SCHEMA, top=self.path)
            # Older files name the precision under `run` alone.
            names = {long: short for short, long in PRECISIONS.items()}
            known = {"precision": names.get(found.run.precision, found.run.precision)}
            experiment = Experiment.from_dict({**known, **found.experiment})
            if PRECISIONS[experiment.precision] != found.run.precision:
                raise ValueError(
                    f"precision is {experiment.precision}, but the run's is {found.run.precision}"
                )
            return experiment, found.run
        except FileNotFoundError as error:
            raise CommandError(f"{path} does not exist") from error
        except ValueError as error:
            raise CommandError(f"{path} is damaged: experiment: {error}") from error

    def config_sum(self) -> str:
        """The checksum of the file that `write_config` wrote."""
        return hashlib.sha256(
            read_bytes(self.path / "config.json", LARGEST_FILE, self.path)
        ).hexdigest()

    def check_config(self, recorded: str | None) -> None:
        """Raise if config.json is not the one of a checksum; None is that of older records."""
        if recorded is not None and recorded != self.config_sum():
            raise CommandError(
                f"{self.path / 'config.json'} was changed after the run was started: restore it, "
                "or train into another folder with --out"
            )

    def write_epochs(self, epochs: Sequence[Epoch]) -> None:
        """Write all finished epochs, so that each is there once whatever happened in between."""
        lines = (json.dumps(plain_values(epoch), allow_nan=False) for epoch in epochs)
        write_text(self.path / "epochs.jsonl", "".join(f"{line}\n" for line in lines))

    def read_epochs(self) -> list[Epoch]:
        """The finished epochs."""
        path = self.path / "epochs.jsonl"
        try:
            lines = read_bytes(path, LARGEST_FILE, self.path).splitlines()
        except FileNotFoundError:
            return []
        if len(lines) > MOST_EPOCHS:
            raise CommandError(f"{path} has {len(lines):,} lines (limit {MOST_EPOCHS:,})")
        return [decode_record(line, Epoch, path, schema=SCHEMA) for line in lines]

    def write_predictions(self, predictions: "npt.NDArray[np.integer[Any]]", classes: int) -> None:
        """Write the predicted class of every test image, one or two bytes each, as an array."""
        import numpy as np

        small = predictions.astype(np.uint8 if classes <= 256 else np.uint16)
        with replacing(self.path / "predictions.npy") as temporary, temporary.open("wb") as file:
            np.save(file, small, allow_pickle=False)

    def read_predictions(self) -> "npt.NDArray[np.integer[Any]] | None":
        """The predicted classes in the order of the test images; None if none are stored."""
        path = self.path / "predictions.npy"
        try:
            return _integers(read_bytes(path, LARGEST_PREDICTIONS, self.path))
        except FileNotFoundError:
            return None
        except (ValueError, EOFError, SyntaxError, MemoryError, RecursionError) as error:
            raise CommandError(f"{path} is damaged: {first_line(error)}") from error

    def write_result(self, result: Result) -> None:
        """Write how far it came, and what came out."""
        write_record(self.path / "result.json", result)

    def read_result(self) -> Result | None:
        """The result; None if there is none yet."""
        try:
            return read_record(self.path / "result.json", Result, schema=SCHEMA, top=self.path)
        except FileNotFoundError:
            return None


def finished_epochs(path: Path) -> int:
    """How many epochs a run has finished, without decoding them."""
    try:
        return read_bytes(path / "epochs.jsonl", LARGEST_FILE, path).count(b"\n")
    except (FileNotFoundError, CommandError):
        return 0


def _integers(content: bytes) -> "npt.NDArray[np.integer[Any]]":
    """The array in a file of `np.save`, if it is one row of integers as long as the file says."""
    import numpy as np

    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"it is an array of format {version[0]}.{version[1]}, not 1.0")
    shape, _, kind = np.lib.format.read_array_header_1_0(file)
    if kind not in (np.uint8, np.uint16) or len(shape) != 1:
        raise ValueError(f"it has shape {shape} and type {kind}, not one row of bytes or two")
    if shape[0] * kind.itemsize != len(content) - file.tell():
        has = len(content) - file.tell()
        raise ValueError(f"it claims {shape[0]} numbers of {kind}, and has {has:,} bytes of them")
    return np.frombuffer(content, kind, offset=file.tell()).copy()
