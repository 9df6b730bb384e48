"""What lies in run directories that are already there."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from scalednl.errors import CommandError
from scalednl.lab.config import Experiment
from scalednl.lab.records.failure import read_failure
from scalednl.lab.records.run import RunFolder

State = Literal["done", "diverged", "running", "interrupted", "failed", "waiting", "unusable"]
"""`unusable`: the folder holds something else; `blocked`: a run that it needs has failed"""


@dataclass(frozen=True)
class Found:
    """One folder."""

    path: Path
    state: State
    note: str = ""
    """Why, where the state alone does not say"""
    experiment: Experiment | None = None
    epochs: int = 0
    """Finished"""
    result: dict[str, Any] | None = None
    run: dict[str, Any] | None = None
    """How it was run"""


def look(path: Path) -> Found:
    """What a folder holds; trouble becomes a state and a note."""
    folder = RunFolder(path)
    failure = read_failure(path)
    if not folder.exists():
        if folder.checkpoints.exists():
            return Found(path, "unusable", "it has checkpoints but no config.json")
        if failure is not None:
            return Found(path, "failed", failure.message)
        return Found(path, "waiting")
    try:
        experiment, run = folder.read_config()
    except CommandError as error:
        return Found(path, "unusable", str(error))
    try:
        result = folder.read_result()
    except CommandError:
        # Going on writes it again.
        result = None
    state: State = "interrupted"
    note = ""
    status = None if result is None else result.get("status")
    if status in ("finished", "diverged"):
        state = "done" if status == "finished" else "diverged"
    elif folder.is_locked():
        state = "running"
    elif failure is not None:
        state, note = "failed", failure.message
    return Found(path, state, note, experiment, finished_epochs(path), result, run)


def look_around(out: Path) -> list[Found]:
    """Everything that lies in a folder of runs."""
    try:
        places = sorted(entry.name for entry in os.scandir(out) if entry.is_dir())
    except OSError:
        return []
    return [look(out / name) for name in places]


def finished_epochs(path: Path) -> int:
    """How many epochs a run has finished, without reading what they brought."""
    try:
        return (path / "epochs.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0
