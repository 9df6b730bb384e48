"""A run directory: the only thing that work and readers share.

config.json     the experiment, how it was run, and where
epochs.jsonl    one line for each finished epoch
result.json     status, errors, time, origin
checkpoints/    the last two, for going on
weights.safetensors   the network after the last epoch
predictions.npy       the class it predicts for every test image, after the last test
attention/      what its blocks look at, once `scalednl attention` has looked
events.*        TensorBoard
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock, Timeout

from scalednl.errors import CommandError
from scalednl.files import replacing, write_json, write_text
from scalednl.lab.config import Experiment

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SCHEMA = 1
Status = Literal["running", "interrupted", "diverged", "finished"]


class BusyError(CommandError):
    """Another process is at work in a run directory."""


class RunFolder:
    """Reads and writes the files of a run."""

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
        """Keep other processes out; the system opens the lock again however this one ends."""
        lock = FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise BusyError(
                f"{self.path} is being trained by another process: wait for it, or choose another "
                "folder with --out"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def is_locked(self) -> bool:
        """Whether a process trains here now; asking writes nothing."""
        if not (self.path / ".lock").is_file():
            return False
        try:
            with self.locked():
                return False
        except BusyError:
            return True
        except OSError:
            # Not ours to lock, as a folder of somebody else: what it says must be believed.
            return True

    def write_config(self, experiment: Experiment, run: dict[str, Any]) -> None:
        """What is to be done, and how."""
        value = {"schema": SCHEMA, "experiment": experiment.as_dict(), "run": run}
        write_json(self.path / "config.json", value)

    def read_config(self) -> tuple[Experiment, dict[str, Any]]:
        """The experiment of this run, and how it was run."""
        value = self._read("config.json")
        try:
            if not isinstance(value["run"], dict):
                raise TypeError(f"run is {value['run']!r}")
            return Experiment.from_dict(value["experiment"]), value["run"]
        except (KeyError, TypeError, ValueError, OverflowError, CommandError) as error:
            raise CommandError(
                f"{self.path / 'config.json'} is not one of this version: {error}"
            ) from error

    def write_epochs(self, epochs: list[dict[str, Any]]) -> None:
        """All finished epochs, so that each stands there once whatever happened in between."""
        lines = (json.dumps({"schema": SCHEMA, **epoch}, allow_nan=False) for epoch in epochs)
        write_text(self.path / "epochs.jsonl", "".join(f"{line}\n" for line in lines))

    def read_epochs(self) -> list[dict[str, Any]]:
        """The finished epochs."""
        path = self.path / "epochs.jsonl"
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            epochs = [json.loads(line) for line in lines]
            if any(epoch["schema"] != SCHEMA for epoch in epochs):
                raise ValueError(f"it has another schema than {SCHEMA}")
            return epochs
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise CommandError(f"{path} is damaged: {error}") from error

    def write_predictions(self, predictions: "npt.NDArray[np.integer[Any]]", classes: int) -> None:
        """The predicted class of every test image, one or two bytes each, as a NumPy array."""
        import numpy as np

        small = predictions.astype(np.uint8 if classes <= 256 else np.uint16)
        with replacing(self.path / "predictions.npy") as temporary, temporary.open("wb") as file:
            np.save(file, small, allow_pickle=False)

    def read_predictions(self) -> "npt.NDArray[np.integer[Any]] | None":
        """The predicted classes in the order of the test images; None if none are stored."""
        import numpy as np

        path = self.path / "predictions.npy"
        try:
            return np.load(path, allow_pickle=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError) as error:
            raise CommandError(f"{path} is damaged: {error}") from error

    def write_result(self, result: dict[str, Any]) -> None:
        """How far it came, and what came out."""
        write_json(self.path / "result.json", {"schema": SCHEMA, **result})

    def read_result(self) -> dict[str, Any] | None:
        """The result, or None if there is none yet."""
        if not (self.path / "result.json").is_file():
            return None
        return self._read("result.json")

    def _read(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise CommandError(f"{path} cannot be read: {error}") from error
        if not isinstance(value, dict) or value.get("schema") != SCHEMA:
            found = value.get("schema") if isinstance(value, dict) else None
            raise CommandError(f"{path} has schema {found}, and this version reads {SCHEMA}")
        return value
