"""The run directories below some folders, each read as far as it can be."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scalednl.config import Experiment
from scalednl.errors import CommandError, UsageError
from scalednl.records.failure import FAILURE, read_failure
from scalednl.records.run import RunFolder

DEPTH = 4
"""Folders below those given that are looked into"""


@dataclass(frozen=True)
class Run:
    """A run directory; `problem` says what is wrong with it."""

    name: str
    """Its place below the folder that was given"""
    path: Path
    experiment: Experiment | None = None
    status: str = "damaged"
    result: dict[str, Any] = field(default_factory=dict)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    @property
    def counts(self) -> bool:
        """Whether its result may enter a mean: it went through all its epochs."""
        return self.status == "finished" and self.error("last") is not None

    def error(self, which: str) -> float | None:
        """Test error in percent, "last" or "best"."""
        errors = self.result.get("test_error_pct")
        value = errors.get(which) if isinstance(errors, dict) else None
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

    @property
    def origin(self) -> dict[str, Any]:
        """The program, machine and moment that made it."""
        found = self.result.get("origin")
        return found if isinstance(found, dict) else {}


def find_runs(folders: Sequence[Path]) -> list[Run]:
    """Every run directory at or below the folders, each once, by name."""
    found: dict[Path, Run] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder: give run directories, or folders of them")
        for path in _run_folders(folder, DEPTH):
            name = folder.name if path == folder else str(path.relative_to(folder))
            found.setdefault(path.resolve(), read_run(path, name))
    return sorted(found.values(), key=lambda run: run.name)


def _run_folders(folder: Path, depth: int) -> Iterator[Path]:
    marks = ("config.json", "result.json", "epochs.jsonl", FAILURE)
    if any((folder / name).is_file() for name in marks):
        yield folder
        return
    if depth == 0:
        return
    try:
        children = sorted(child for child in folder.iterdir() if child.is_dir())
    except OSError:
        return
    for child in children:
        yield from _run_folders(child, depth - 1)


def read_run(path: Path, name: str) -> Run:
    """A run directory; whatever is wrong with it becomes its `problem`."""
    folder = RunFolder(path)
    failure = read_failure(path)
    if failure is not None and not folder.exists():
        return Run(name, path, status="failed", problem=failure.message)
    try:
        experiment, settings = folder.read_config()
        result = folder.read_result() or {}
        epochs = folder.read_epochs()
        _check(result, epochs, settings)
    except CommandError as error:
        return Run(name, path, problem=str(error).replace(f"{path}/", ""))
    status = result.get("status", "not begun")
    if status == "running" and not folder.is_locked():
        status = "interrupted"
    problem = ""
    if failure is not None and status not in ("finished", "diverged", "running"):
        status, problem = "failed", failure.message
    return Run(name, path, experiment, status, result, epochs, settings, problem)


def _check(result: dict[str, Any], epochs: list[dict[str, Any]], settings: object) -> None:
    """Refuse what later steps could stumble over."""
    if not isinstance(settings, dict):
        raise CommandError("config.json: run is not a table of values")
    status = result.get("status", "")
    if not isinstance(status, str):
        raise CommandError(f"result.json has a status of {status!r}")
    for name in ("seconds", "images_per_second", "peak_memory_mb", "parameters", "epochs"):
        if not isinstance(result.get(name, 0), int | float | None):
            raise CommandError(f"result.json: {name} is {result[name]!r}, not a number")
    for epoch in epochs:
        for name in ("epoch", "test_error_pct"):
            value = epoch.get(name)
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise CommandError(f"epochs.jsonl: {name} is {value!r}, not a number")
