"""Runs on a Ray cluster: one that is there, or one started here for as long as the sweep lasts.

Ray tries a run again when its worker or machine is lost; the run's folder, which all machines must
see, then goes on from its last checkpoint. Its lock and its result make sure that nothing is done
twice.
"""

import logging
import os
import platform
import time
import uuid
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from scalednl.errors import CommandError, UsageError
from scalednl.lab.records.failure import LOG
from scalednl.lab.sweep.jobs import End, Job
from scalednl.lab.sweep.worker import attempt

PATIENCE_SECONDS = 60.0
"""For a worker that is given up for lost and still holds the lock of its run"""
STORE_BYTES = 100_000_000
NO_LIMIT = 1_000_000
# What Ray says by itself of lost workers; we say it in our own words.
HIDDEN = "worker died or was killed|retries remaining|task will be retried|Workers \\(tasks"
DATA = "SCALEDNL_DATA"


class RayEngine:
    """All runs are put in line at once; the cluster takes as many at a time as it has room for."""

    def __init__(
        self,
        out: Path,
        *,
        address: str | None = None,
        cpus: float = 1.0,
        gpus: float = 0.0,
    ) -> None:
        self._ray = _import_ray()
        self._out, self._cpus, self._gpus = out.absolute(), cpus, gpus
        self._mine = not self._ray.is_initialized()
        self._lines: dict[Any, tuple[str, Path, int]] = {}
        if self._mine:
            self._connect(address or os.environ.get("RAY_ADDRESS"))
        self._mark = self._out / f".sweep-{uuid.uuid4().hex}"
        try:
            self._out.mkdir(parents=True, exist_ok=True)
            self._mark.touch()
        except OSError as error:
            self._disconnect()
            raise CommandError(
                f"{out} cannot be written ({error.strerror}): choose another folder with --out"
            ) from error
        self._task = self._ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0, max_calls=1)(
            _attempt
        )

    def room(self) -> int:
        """Everything may stand in line."""
        return NO_LIMIT

    def slots(self) -> int:
        """How many runs the cluster has room for now."""
        there = self._ray.cluster_resources()
        asked = {"CPU": self._cpus, "GPU": self._gpus}
        rooms = [int(there.get(name, 0) / share) for name, share in asked.items() if share]
        return max(1, min(rooms, default=1))

    def start(self, job: Job) -> None:
        """Put in line."""
        path = Path(job.path).absolute()
        root = None if job.root is None else str(Path(job.root).absolute())
        data = os.environ.get(DATA)
        environment = {DATA: os.path.abspath(data)} if data else {}
        sent = replace(
            job, path=str(path), root=root, environment=environment, patience=PATIENCE_SECONDS
        )
        reference = self._task.remote(sent, str(self._mark))
        self._lines[reference] = (job.name, path, _size(path))

    def wait(self, seconds: float) -> list[tuple[str, End]]:
        """The names and ends of tasks that have ended."""
        lines = list(self._lines)
        if not lines:
            time.sleep(seconds)
            return []
        ended, _ = self._ray.wait(lines, num_returns=1, timeout=seconds)
        if ended:
            ended, _ = self._ray.wait(lines, num_returns=len(lines), timeout=0)
        return [(self._lines.pop(reference)[0], self._end(reference)) for reference in ended]

    def at_work(self) -> set[str]:
        """Names of jobs that have written to their logs since they were put in line."""
        return {name for name, path, size in self._lines.values() if _size(path) != size}

    def interrupt(self, _: int, /) -> None:
        """Take those in line out of it, and ask the others to save and end."""
        for reference in self._lines:
            self._ray.cancel(reference, force=False)

    def kill(self) -> None:
        """Nothing to do: Ray ends the workers of a program that has left."""

    def close(self) -> None:
        """Leave the cluster, or end it if it was started here."""
        self._mark.unlink(missing_ok=True)
        self._disconnect()

    def _connect(self, address: str | None) -> None:
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            if address is not None:
                self._ray.init(address=address, **quiet)
                return
            self._ray.init(
                address="local",
                include_dashboard=False,
                object_store_memory=STORE_BYTES,
                **quiet,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0]
            said = f"no Ray cluster could be started here: {reason}"
            if address is not None:
                said = f"no Ray cluster answers at {address}: {reason}; if it asks for a token, "
                said += "set RAY_AUTH_MODE=token"
            raise CommandError(said) from error
        self._check_size()

    def _check_size(self) -> None:
        """A cluster of our own never grows, so a run that does not fit would wait for ever."""
        there = self._ray.cluster_resources()
        for kind, flag, asked in (("CPU", "cpus", self._cpus), ("GPU", "gpus", self._gpus)):
            if asked > there.get(kind, 0):
                self._disconnect()
                raise UsageError(
                    f"--{flag} {asked:g} is more than the {there.get(kind, 0):g} of this machine"
                )

    def _disconnect(self) -> None:
        if self._mine:
            self._ray.shutdown()

    def _end(self, reference: Any) -> End:
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.TaskCancelledError:
            return End("interrupted", "taken out of the line")
        except errors.RayTaskError as error:
            if isinstance(error.cause, ImportError):
                return End(
                    "unseen",
                    f"a machine of the cluster cannot load this version of scalednl "
                    f"({error.cause}): install it on all of them",
                )
            return End("failed", _first_line(error))
        except errors.RayError as error:
            return End("failed", _first_line(error))


def _attempt(job: Job, mark: str) -> End:
    """In a worker of the cluster."""
    if not Path(mark).exists():
        return End(
            "unseen",
            f"{platform.node()} does not see {Path(mark).parent}: choose a folder with --out "
            "that all machines of the cluster share",
        )
    folder = Path(job.path)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOG).open("a") as log, redirect_stdout(log), redirect_stderr(log):
        return attempt(job)


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", HIDDEN)
    try:
        import ray
    except ImportError:
        raise CommandError(
            "--engine ray needs Ray: `pip install scalednl[sweep]`, or leave the option out"
        ) from None
    return ray


def _size(path: Path) -> int:
    with suppress(OSError):
        return (path / LOG).stat().st_size
    return 0


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no more is known'}"
