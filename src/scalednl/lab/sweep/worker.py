"""One attempt at one run, in a process of its own.

`python -m scalednl.lab.sweep.worker` reads a job from standard input, logs to standard error, and
reports its result on standard output. When its input closes, its parent has died, and it stops as
on a termination signal.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from scalednl.errors import CommandError, UsageError
from scalednl.lab.config import Experiment, RunSettings
from scalednl.lab.heartbeat import NAME, beating
from scalednl.lab.machine import keep_niceness
from scalednl.lab.records.run import BusyError, RunFolder
from scalednl.lab.streams import open_standard_streams
from scalednl.lab.sweep.plan import PlannedRun
from scalednl.lab.user_code import load_code, loaded_files

POLL_SECONDS = 0.5
LONGEST_MESSAGE = 2000
"""Letters that fit into a pipe that nobody reads yet; the log has the complete message"""

AttemptResult = Literal[
    "finished", "diverged", "interrupted", "busy", "failed", "refused", "unusable"
]
"""`busy`: another process trains there; `refused`: a second attempt would fail in the same way;
`unusable`: no run can be trained on this machine"""


@dataclass(frozen=True)
class Job:
    """A run as a worker gets it: plain values that any machine can read."""

    name: str
    path: str
    experiment: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    root: str | None = None
    attention: int = 0
    """Test images on which the attention of the finished run is recorded; 0: it is not"""
    command: tuple[str, ...] = ("scalednl",)
    """The command that was typed, for the records"""
    environment: dict[str, str] = field(default_factory=dict)
    patience: float = 2.0
    """Seconds to wait for another process that trains in the folder"""
    code: tuple[str, ...] = ()
    """Files of the user's own that were named to the sweep, which the worker executes too"""

    @classmethod
    def of(
        cls, run: PlannedRun, settings: RunSettings, root: Path | None = None, attention: int = 0
    ) -> "Job":
        """The job of a planned run."""
        return cls(
            run.name,
            str(run.path),
            run.experiment.as_dict(),
            settings.as_dict(),
            None if root is None else str(root),
            attention,
            tuple(sys.argv),
            code=tuple(map(str, loaded_files())),
        )


@dataclass(frozen=True)
class Attempt:
    """How one attempt at a run ended."""

    result: AttemptResult
    message: str = ""
    """A sentence"""


def train(job: Job) -> Attempt:
    """Train the job's experiment, resuming what its folder has; then record its attention."""
    from scalednl.lab.allocator import keep_memory
    from scalednl.lab.machine import use_threads
    from scalednl.lab.training.run import run
    from scalednl.lab.training.run_writer import summary

    for path in job.code:
        load_code(Path(path))
    experiment, settings = Experiment.from_dict(job.experiment), RunSettings(**job.settings)
    root = None if job.root is None else Path(job.root)
    use_threads(settings.threads)
    keep_memory(settings.keep_memory)
    outcome = run(experiment, Path(job.path), settings, root=root)
    assert outcome.status != "running"
    message = summary(outcome.result)
    if job.attention and outcome.status == "finished":
        message += _record_attention(Path(job.path), job.attention, root)
    return Attempt(outcome.status, message)


def _record_attention(path: Path, images: int, root: Path | None) -> str:
    """Record the attention of a finished run, unless it is there; what failed, as more message."""
    from scalednl.lab.records.attention import is_current

    with RunFolder(path).locked():
        if is_current(path, images):
            return ""
        print("recording its attention", flush=True)
        from scalednl.lab.attention.record import record_run

        try:
            record_run(path, images=images, root=root)
        except Exception as error:
            # The run itself has finished, so nothing here may make it a failed one.
            traceback.print_exc()
            return f"; its attention could not be recorded: {error}"
    return ""


def attempt(job: Job, work: Callable[[Job], Attempt] = train) -> Attempt:
    """Work on a job; whatever happens becomes a result with a sentence."""
    sys.argv = list(job.command)
    os.environ.update(job.environment)
    print(f"--- {datetime.now(timezone.utc).isoformat(timespec='seconds')}", flush=True)
    patience = time.monotonic() + job.patience
    while True:
        try:
            with beating(Path(job.path) / NAME):
                return work(job)
        except BusyError as error:
            if time.monotonic() >= patience:
                return Attempt("busy", str(error))
            time.sleep(POLL_SECONDS)
        except (CommandError, ValueError) as error:
            print(error, flush=True)
            return Attempt("refused" if isinstance(error, UsageError) else "failed", str(error))
        except KeyboardInterrupt:
            return Attempt("interrupted", "interrupted")
        except Exception as error:
            traceback.print_exc()
            return Attempt("failed", f"{type(error).__name__}: {error}")


def main(work: Callable[[Job], Attempt] = train) -> None:
    """Work on one job from standard input."""
    open_standard_streams()
    keep_niceness()
    job = Job(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    answer = os.dup(1)
    os.dup2(2, 1)
    ended = attempt(job, work)
    ended = replace(ended, message=ended.message[:LONGEST_MESSAGE])
    os.write(answer, json.dumps(asdict(ended)).encode())
    sys.exit(0 if ended.result in ("finished", "diverged") else 1)


def _stop_with_parent() -> None:
    """Wait until the input closes, which only happens when the parent has died."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
