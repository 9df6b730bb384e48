"""Run directories as readers see them: what each holds, its state, and which of two counts."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Literal

from scalednl.errors import CommandError, UsageError
from scalednl.files import is_inside
from scalednl.lab.config import Experiment
from scalednl.lab.records.failure import FAILURE, read_failure
from scalednl.lab.records.origin import Origin
from scalednl.lab.records.run import Epoch, Result, RunFolder, RunSetup

State = Literal["waiting", "running", "interrupted", "finished", "diverged", "failed", "damaged"]
"""waiting: nothing is there yet; failed: a sweep gave it up; damaged: its files cannot be read"""
DEPTH = 4
"""Levels of folders that are searched"""
LINK = "it is a link to another folder, which is not followed: name that folder too"
LEFTOVERS = ("checkpoints", "result.json", "epochs.jsonl")
"""What may be left of a run whose config is gone"""


@dataclass(frozen=True)
class RunRecord:
    """A run directory, read as far as possible."""

    name: str
    """Its place below the folder that was searched"""
    path: Path
    state: State
    note: str = ""
    """Why, where the state alone does not say it"""
    experiment: Experiment | None = None
    setup: RunSetup = field(default_factory=RunSetup)
    result: Result | None = None
    epochs: tuple[Epoch, ...] = ()

    @property
    def cell(self) -> str | None:
        """What it shares with its runs of other seeds; None if its config cannot be read."""
        return None if self.experiment is None else self.experiment.cell

    @property
    def seed(self) -> int | None:
        """The seed of its experiment; None if its config cannot be read."""
        return None if self.experiment is None else self.experiment.seed

    @property
    def last_error(self) -> float | None:
        """Test error in percent after the last epoch."""
        return None if self.result is None else self.result.test_error_pct.last

    @property
    def best_error(self) -> float | None:
        """Test error in percent after the best epoch."""
        return None if self.result is None else self.result.test_error_pct.best

    @property
    def counts(self) -> bool:
        """Whether its error may enter a mean: it has finished, with a known error."""
        return self.state == "finished" and self.last_error is not None

    @property
    def has_ended(self) -> bool:
        """Whether training it again would change nothing; diverging is a result."""
        return self.state in ("finished", "diverged")

    @property
    def origin(self) -> Origin:
        """The program, machine and moment that made it."""
        return self.setup.origin if self.result is None else self.result.origin


Cells = Mapping[str, Sequence[RunRecord]]
"""Runs by their cell, one for each seed"""


def by_cell(runs: Iterable[RunRecord]) -> dict[str, list[RunRecord]]:
    """Runs that only their seeds tell apart, together; of one seed, the run that counts."""
    same: dict[tuple[str, int], list[RunRecord]] = {}
    for run in runs:
        if run.cell is not None and run.seed is not None:
            same.setdefault((run.cell, run.seed), []).append(run)
    found: dict[str, list[RunRecord]] = {}
    for (cell, _), members in sorted(same.items(), key=lambda item: item[0]):
        found.setdefault(cell, []).append(which_counts(members))
    return found


def which_counts(runs: Sequence[RunRecord]) -> RunRecord:
    """The run that counts among several of one training and seed.

    A run that has ended counts before others; of two, the earlier, so that repeating a run hides
    nothing. Among unfinished runs it is the one that is being trained, then the one further on.
    """

    def rank(run: RunRecord) -> tuple[bool, str, bool, int]:
        ended = run.counts or run.state == "diverged"
        date = run.origin.date if ended else ""
        return not ended, date, run.state != "running", -len(run.epochs)

    return min(runs, key=rank)


def find_runs(folders: Sequence[Path]) -> list[RunRecord]:
    """Every run directory at or below the folders, each once, by name.

    A link to a folder outside of them is not followed: it is listed with that reason.
    """
    places: dict[Path, tuple[Path, Path]] = {}
    links: dict[Path, tuple[Path, Path]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder: give run directories, or folders of them")
        for path in _run_folders(folder, DEPTH):
            if path != folder and path.is_symlink():
                links.setdefault(path.resolve(), (path, folder))
            else:
                places.setdefault(path.resolve(), (path, folder))
    for real, link in links.items():
        if not any(is_inside(real, folder) for folder in folders):
            places.setdefault(real, link)
    times = Counter(_name(path, folder) for path, folder in places.values())
    runs: dict[str, RunRecord] = {}
    for path, folder in places.values():
        name = _name(path, folder)
        if times[name] > 1:
            name = f"{_text(folder.resolve().name)}/{name}"
        names = (name if number == 1 else f"{name} ({number})" for number in count(1))
        name = next(one for one in names if one not in runs)
        is_link = path != folder and path.is_symlink()
        runs[name] = RunRecord(name, path, "damaged", LINK) if is_link else read_run(path, name)
    return sorted(runs.values(), key=lambda run: run.name)


def _name(path: Path, folder: Path) -> str:
    return _text(folder.resolve().name if path == folder else str(path.relative_to(folder)))


def _text(name: str) -> str:
    """A file name as text that every file can hold: bytes that are not UTF-8 become "?"."""
    return name.encode("utf-8", "replace").decode("utf-8")


def _run_folders(folder: Path, depth: int) -> Iterator[Path]:
    """Run directories at or below a folder, and links to folders."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    names = {entry.name for entry in found}
    if names & {"config.json", FAILURE}:
        yield folder
        return
    below = [path for entry in found if depth for path in _in_entry(entry, folder, depth - 1)]
    yield from below
    if not below and names & set(LEFTOVERS):
        yield folder


def _in_entry(entry: "os.DirEntry[str]", folder: Path, depth: int) -> Iterator[Path]:
    path = folder / entry.name
    with suppress(OSError):
        if not entry.is_dir():
            return
        if entry.is_symlink():
            yield path
        else:
            yield from _run_folders(path, depth)


def read_run(path: Path, name: str | None = None) -> RunRecord:
    """A run directory, by default under the folder's name.

    Whatever is wrong with it becomes a state and a note.
    """
    folder, failure = RunFolder(path), read_failure(path)
    found = RunRecord(_text(path.name) if name is None else name, path, "waiting")
    if failure is not None:
        found = replace(found, state="failed", note=failure.message)
    if not folder.exists():
        left = [name for name in ("config.json", *LEFTOVERS) if os.path.lexists(path / name)]
        if left:
            note = f"it has {left[0]}, but no file config.json to say what it is"
            found = replace(found, state="damaged", note=note)
        return found
    try:
        experiment, setup = folder.read_config()
        found = replace(found, experiment=experiment, setup=setup)
        result, epochs = folder.read_result(), tuple(folder.read_epochs())
        folder.check_config(None if result is None else result.config_sha256)
    except CommandError as error:
        return replace(found, state="damaged", note=_text(str(error)).replace(f"{path}/", ""))
    found = replace(found, result=result, epochs=epochs)
    if result is not None and result.status in ("finished", "diverged"):
        return replace(found, state=result.status, note="")
    if folder.is_locked():
        return replace(found, state="running", note="")
    return found if failure is not None else replace(found, state="interrupted")
