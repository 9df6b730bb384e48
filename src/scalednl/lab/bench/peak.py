"""Peak memory of one piece of work, each in a fresh process: nothing earlier can hide in it.

The number is the growth of the process's resident memory up to its peak, from just before the step,
or from before its inputs were made.
"""

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch

from scalednl.errors import CommandError
from scalednl.lab.machine import current_bytes, peak_bytes

Prepare = Callable[..., Callable[[], object]]


@dataclass(frozen=True)
class Peak:
    """Growth of memory over the work, and how long its last run took."""

    bytes: int
    seconds: float


def peak_of(
    prepare: Prepare,
    *arguments: Any,
    device: str = "cpu",
    runs: int = 2,
    with_inputs: bool = False,
) -> Peak:
    """Peak memory of `runs` runs of the step that `prepare(*arguments)` makes, in a new process.

    `prepare` is a function of a module, so that the process can find it; `with_inputs` counts what
    it makes too. On a GPU it is the device's memory that is reported, not the process's.
    """
    # torch is imported once, in a process that never computes: each child starts in no time.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, prepare.__module__])
    receiver, sender = context.Pipe(duplex=False)
    options = (device, runs, with_inputs, torch.get_num_threads())
    child = context.Process(target=_work, args=(sender, prepare, arguments, *options))
    child.start()
    sender.close()
    try:
        found = receiver.recv()
    except EOFError:
        child.join()
        raise CommandError(
            f"measuring the memory of {prepare.__name__}{arguments} ended with exit code "
            f"{child.exitcode}: the machine may have too little memory"
        ) from None
    child.join()
    if isinstance(found, str):
        raise CommandError(f"measuring the memory of {prepare.__name__}{arguments}: {found}")
    return found


def _work(
    sender: Connection,
    prepare: Prepare,
    arguments: tuple[Any, ...],
    device: str,
    runs: int,
    with_inputs: bool,
    threads: int,
) -> None:
    from scalednl.lab.bench.measure import interleaved

    torch.set_num_threads(threads)
    try:
        before = current_bytes(device)
        step = prepare(*arguments)
        before = before if with_inputs else current_bytes(device)
        times = interleaved({"": step}, runs, warm_up=0, device=device)[""]
        growth = (peak_bytes(device) or 0) - (before or 0)
        sender.send(Peak(max(0, growth), times[-1]))
    except (RuntimeError, MemoryError) as error:
        sender.send(str(error).splitlines()[0])
