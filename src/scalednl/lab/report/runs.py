"""The run directories below some folders, each read as far as it can be."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from scalednl.errors import CommandError, UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.records.failure import FAILURE, read_failure
from scalednl.lab.records.run import RunFolder
from scalednl.lab.report.sanitize import clean, clean_origin, words

LARGEST = 1e15
"""Of the numbers in a result: seconds, parameters, ..."""
DEPTH = 4
"""Folders below those given that are looked into"""
STATUSES = ("running", "interrupted", "diverged", "finished")
FULL_PRECISION = ("32-true", "32", "fp32", None)


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
    def cell(self) -> str | None:
        """What its runs of other seeds share; half precision is another training."""
        if self.experiment is None:
            return None
        precision = self.settings.get("precision")
        return self.experiment.cell + ("" if precision in FULL_PRECISION else f" {precision}")

    @property
    def seed(self) -> int | None:
        """Of its experiment; None if that cannot be read."""
        return None if self.experiment is None else self.experiment.seed

    @property
    def counts(self) -> bool:
        """Whether its result may enter a mean: it went through all its epochs."""
        return self.status == "finished" and self.error("last") is not None

    def error(self, which: str) -> float | None:
        """Test error in percent, "last" or "best"."""
        errors = self.result.get("test_error_pct")
        value = errors.get(which) if isinstance(errors, dict) else None
        return float(value) if isinstance(value, int | float) and 0 <= value <= 100 else None

    @property
    def origin(self) -> dict[str, Any]:
        """The program, machine and moment that made it."""
        return clean_origin(self.result.get("origin"))


def find_runs(folders: Sequence[Path]) -> list[Run]:
    """Every run directory at or below the folders, each once, by name."""
    places: dict[Path, tuple[Path, Path]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder: give run directories, or folders of them")
        for path in _run_folders(folder, DEPTH):
            places.setdefault(path.resolve(), (path, folder))
    short = {place: _name(path, folder) for place, (path, folder) in places.items()}
    twice = {name for name, times in Counter(short.values()).items() if times > 1}
    runs: list[Run] = []
    for place, (path, folder) in places.items():
        name = short[place]
        if name in twice:
            name = f"{folder.resolve().name}/{name}"
        taken = {run.name for run in runs}
        numbered = (f"{name} ({number})" for number in count(2))
        unique = name if name not in taken else next(n for n in numbered if n not in taken)
        runs.append(read_run(path, unique))
    return sorted(runs, key=lambda run: run.name)


def _name(path: Path, folder: Path) -> str:
    return words(folder.resolve().name if path == folder else str(path.relative_to(folder)))


def _run_folders(folder: Path, depth: int) -> Iterator[Path]:
    if _has(folder, "config.json") or _has(folder, FAILURE):
        yield folder
        return
    below = 0
    for child in _children(folder) if depth else ():
        for path in _run_folders(child, depth - 1):
            below += 1
            yield path
    # What is left of a run whose config is gone.
    if not below and (_has(folder, "result.json") or _has(folder, "epochs.jsonl")):
        yield folder


def _has(folder: Path, name: str) -> bool:
    try:
        return (folder / name).is_file()
    except OSError:
        return False


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(child for child in folder.iterdir() if child.is_dir())
    except OSError:
        return []


def read_run(path: Path, name: str) -> Run:
    """A run directory; whatever is wrong with it becomes its `problem`."""
    folder = RunFolder(path)
    failure = read_failure(path)
    if failure is not None and not folder.exists():
        return Run(name, path, status="failed", problem=failure.message)
    try:
        experiment, settings = folder.read_config()
        result = clean(folder.read_result() or {})
        epochs = clean(folder.read_epochs())
        settings = clean(settings)
        _check(result, epochs, settings)
    except (CommandError, ValueError, OSError) as error:
        return Run(name, path, problem=words(str(error).replace(f"{path}/", "")))
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
    status = result.get("status")
    if result and status not in STATUSES:
        raise CommandError(f"result.json has a status of {status!r}")
    for name in ("seconds", "images_per_second", "peak_memory_mb", "parameters", "epochs"):
        value = result.get(name, 0)
        if value is None:
            continue
        if not isinstance(value, int | float) or not 0 <= value <= LARGEST:
            raise CommandError(f"result.json: {name} is {value!r}, not a number from 0 to 1e15")
    for epoch in epochs:
        for name in ("epoch", "test_error_pct"):
            value = epoch.get(name, "missing")
            if value is None and name == "test_error_pct":
                # Not tested after this epoch.
                continue
            if not isinstance(value, int | float) or value < 0:
                raise CommandError(f"epochs.jsonl: {name} is {value!r}, not a number")
