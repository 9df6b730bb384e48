"""What engines and workers hand each other."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from scalednl.lab.config import RunSettings
from scalednl.lab.sweep.plan import PlannedRun

TRAIN = "scalednl.lab.sweep.worker:train"

How = Literal["finished", "diverged", "interrupted", "busy", "failed", "refused", "unseen"]
"""`busy`: another process is at work there; `refused`: no second try would help; `unseen`: the
machine does not see the folder"""


@dataclass(frozen=True)
class Job:
    """A run as a worker gets it: plain values that any machine can read."""

    name: str
    path: str
    experiment: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    root: str | None = None
    work: str = TRAIN
    """MODULE:FUNCTION, called with the job; what it returns is the end"""
    command: tuple[str, ...] = ("scalednl",)
    """What the person typed, for the records"""
    environment: dict[str, str] = field(default_factory=dict)
    patience: float = 2.0
    """Seconds to wait for another process that is at work in the folder"""

    def as_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """Undo `as_json`."""
        values = json.loads(text)
        values["command"] = tuple(values["command"])
        return cls(**values)


@dataclass(frozen=True)
class End:
    """How one attempt at a run ended."""

    how: How
    message: str = ""
    """A sentence"""


@runtime_checkable
class Engine(Protocol):
    """Where jobs are worked on."""

    def room(self) -> int:
        """How many more jobs may be started now."""

    def slots(self) -> int:
        """How many jobs can be at work at a time."""

    def start(self, job: Job) -> None:
        """Begin, or put in line."""

    def wait(self, seconds: float) -> list[tuple[str, End]]:
        """The names and ends of jobs, each once; waits for the first of them so long at most."""

    def at_work(self) -> set[str]:
        """Names of jobs that have begun and not ended."""

    def interrupt(self, number: int, /) -> None:
        """Ask all to save and end, as this signal does; those in line do not begin."""

    def kill(self) -> None:
        """End all at once."""

    def close(self) -> None:
        """Give back what was taken."""


@dataclass(frozen=True)
class JobMaker:
    """Turns planned runs into jobs."""

    settings: RunSettings = field(default_factory=RunSettings)
    root: Path | None = None
    work: str = TRAIN
    command: tuple[str, ...] = ("scalednl",)

    def __call__(self, run: PlannedRun) -> Job:
        """The job of a run."""
        return Job(
            run.name,
            str(run.path),
            run.experiment.as_dict(),
            self.settings.as_dict(),
            None if self.root is None else str(self.root),
            self.work,
            self.command,
        )
