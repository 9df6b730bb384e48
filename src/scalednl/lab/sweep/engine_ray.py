"""Runs on a Ray cluster: a running one, or one that is started here and ends with the sweep.

The runs' folder must be shared by all machines. When a worker or a machine is lost, the run is
tried again from its last checkpoint; its lock and its result prevent it from being trained twice.
"""

import logging
import os
import platform
import time
import uuid
from collections.abc import Callable, Collection
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from scalednl.errors import CommandError, UsageError, described, first_line
from scalednl.files import writing_to
from scalednl.lab.records.failure import LOG
from scalednl.lab.sweep.worker import Attempt, Job, attempt, train

PATIENCE_SECONDS = 60.0
"""To wait for a lost worker that still holds the lock of its run"""
STORE_BYTES = 100_000_000
NO_LIMIT = 1_000_000
# Ray's own lines about lost workers; the sweep reports them itself.
HIDDEN = "worker died or was killed|retries remaining|task will be retried|Workers \\(tasks"
DATA = "SCALEDNL_DATA"


class RayEngine:
    """All runs are queued at once; the cluster works on as many at a time as it has room for."""

    def __init__(
        self,
        out: Path,
        *,
        address: str | None = None,
        cpus: float = 1.0,
        gpus: float = 0.0,
        work: Callable[[Job], Attempt] = train,
    ) -> None:
        self._ray = _import_ray()
        self._out, self._cpus, self._gpus = out.absolute(), cpus, gpus
        self._work = work
        self._mine = not self._ray.is_initialized()
        self._tasks: dict[Any, tuple[str, Path, int]] = {}
        """Name, folder, and size of the log when the job was queued"""
        if self._mine:
            self._connect(address or os.environ.get("RAY_ADDRESS"))
        self._mark = self._out / f".sweep-{uuid.uuid4().hex}"
        try:
            with writing_to(out):
                self._out.mkdir(parents=True, exist_ok=True)
                self._mark.touch()
        except CommandError:
            self._disconnect()
            raise
        self._task = self._ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0, max_calls=1)(
            _attempt
        )

    def room(self) -> int:
        """Everything may be queued."""
        return NO_LIMIT

    def slots(self) -> int:
        """How many runs the cluster has room for now."""
        there = self._ray.cluster_resources()
        asked = {"CPU": self._cpus, "GPU": self._gpus}
        rooms = [int(there.get(name, 0) / share) for name, share in asked.items() if share]
        return max(1, min(rooms, default=1))

    def start(self, job: Job) -> None:
        """Queue a job."""
        path = Path(job.path).absolute()
        root = None if job.root is None else str(Path(job.root).absolute())
        data = os.environ.get(DATA)
        environment = {DATA: os.path.abspath(data)} if data else {}
        sent = replace(
            job, path=str(path), root=root, environment=environment, patience=PATIENCE_SECONDS
        )
        reference = self._task.remote(sent, str(self._mark), self._work)
        self._tasks[reference] = (job.name, path, _size(path))

    def wait(self, seconds: float) -> list[tuple[str, Attempt]]:
        """The jobs whose tasks have ended; waits at most so long for the first of them."""
        tasks = list(self._tasks)
        if not tasks:
            time.sleep(seconds)
            return []
        ended, _ = self._ray.wait(tasks, num_returns=1, timeout=seconds)
        if ended:
            ended, _ = self._ray.wait(tasks, num_returns=len(tasks), timeout=0)
        return [(self._tasks.pop(reference)[0], self._end(reference)) for reference in ended]

    def at_work(self) -> set[str]:
        """Names of jobs that have written to their logs since they were queued."""
        return {name for name, path, size in self._tasks.values() if _size(path) != size}

    def interrupt(self, _: int, /) -> None:
        """Remove queued jobs, and ask the others to save and end."""
        for reference in self._tasks:
            self._ray.cancel(reference, force=False)

    def kill(self, names: Collection[str] | None = None, /) -> None:
        """End the workers of these jobs; all others Ray ends itself when this program exits."""
        for reference, (name, _, _) in self._tasks.items():
            if names is not None and name in names:
                self._ray.cancel(reference, force=True)

    def close(self) -> None:
        """Leave the cluster, or end it if it was started here."""
        self._mark.unlink(missing_ok=True)
        self._disconnect()

    def _connect(self, address: str | None) -> None:
        options = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
        if address is None:
            own = {"include_dashboard": False, "object_store_memory": STORE_BYTES}
            options |= {"address": "local", **own}
        try:
            self._ray.init(**options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = first_line(error)
            problem = f"could not start a Ray cluster on this machine: {reason}"
            if address is not None:
                problem = f"no Ray cluster answers at {address}: {reason}; {_about_tokens()}"
            raise CommandError(problem) from error
        if address is None:
            self._check_size()

    def _check_size(self) -> None:
        """Raise if no run fits into a cluster that was started here, which never grows."""
        there = self._ray.cluster_resources()
        for kind, flag, asked in (("CPU", "cpus", self._cpus), ("GPU", "gpus", self._gpus)):
            if asked > there.get(kind, 0):
                self._disconnect()
                raise UsageError(
                    f"--{flag} must be at most {there.get(kind, 0):g}, what this machine has, got "
                    f"{asked:g}"
                )

    def _disconnect(self) -> None:
        if self._mine:
            self._ray.shutdown()

    def _end(self, reference: Any) -> Attempt:
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.TaskCancelledError:
            return Attempt("interrupted", "removed from the queue")
        except errors.RayTaskError as error:
            if isinstance(error.cause, ImportError):
                return Attempt(
                    "unusable",
                    f"a machine of the cluster cannot load this version of scalednl "
                    f"({error.cause}): install it on all of them",
                )
            return Attempt("failed", described(error))
        except errors.RayError as error:
            return Attempt("failed", described(error))


def _attempt(job: Job, mark: str, work: Callable[[Job], Attempt]) -> Attempt:
    """Work on a job, in a worker of the cluster."""
    if not Path(mark).exists():
        return Attempt(
            "unusable",
            f"{platform.node()} cannot see {Path(mark).parent}: choose a folder with --out "
            "that all machines of the cluster share",
        )
    folder = Path(job.path)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOG).open("a") as log, redirect_stdout(log), redirect_stderr(log):
        return attempt(job, work)


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", HIDDEN)
    try:
        import ray
    except ImportError:
        raise CommandError(
            "--engine ray needs Ray: `pip install scalednl[sweep]`, or leave out the option"
        ) from None
    return ray


def _about_tokens() -> str:
    if os.environ.get("RAY_AUTH_MODE") == "token":
        return "this machine must have the cluster's token, in ~/.ray/auth_token"
    return "if it requires a token, set RAY_AUTH_MODE=token"


def _size(path: Path) -> int:
    with suppress(OSError):
        return (path / LOG).stat().st_size
    return 0
