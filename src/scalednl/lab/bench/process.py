"""Fresh processes for measurements: nothing earlier can hide in them.

They start with the allocator's default settings, whatever this process has set.
"""

import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import torch

from scalednl.errors import CommandError, first_line


class FreshProcess:
    """A process that computes `work(connection, *arguments)` with as many threads as this one.

    `work` is a function of a module, so that the process can find it. It may answer with any value;
    what it raises as `RuntimeError` or `MemoryError` is raised here as `CommandError`.
    """

    def __init__(self, what: str, work: Callable[..., None], *arguments: Any) -> None:
        self.what = what
        # torch is imported once, in a process that never computes: each child starts in no time.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, work.__module__])
        self._connection, theirs = context.Pipe()
        options = (theirs, work, arguments, torch.get_num_threads())
        self._process = context.Process(target=_work, args=options, daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> "FreshProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for its end; after an error it is not waited for."""
        self._connection.close()
        if error is not None:
            self._process.terminate()
        self._process.join()

    def send(self, value: Any) -> None:
        """Send it a value."""
        self._connection.send(value)

    def receive(self) -> Any:
        """Its next answer."""
        try:
            found = self._connection.recv()
        except EOFError:
            self._process.join()
            raise CommandError(
                f"{self.what} ended with exit code {self._process.exitcode}: the machine may have "
                "too little memory"
            ) from None
        if isinstance(found, _Problem):
            raise CommandError(f"{self.what}: {found.sentence}")
        return found


class _Problem:
    """What went wrong in the process."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence


def _work(
    connection: Connection, work: Callable[..., None], arguments: tuple[Any, ...], threads: int
) -> None:
    # An interrupt reaches this process too; the one that waits for it ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    try:
        work(connection, *arguments)
    except (EOFError, BrokenPipeError):
        # The process that measures has ended.
        return
    except (RuntimeError, MemoryError) as error:
        connection.send(_Problem(first_line(error)))
