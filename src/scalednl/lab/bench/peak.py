"""Peak memory of one piece of work, each in a fresh process: nothing earlier can hide in it.

The number is the growth of the process's resident memory up to its peak, from just before the step,
or from before its inputs were made. `ru_maxrss` would not do: a process that is started with exec
inherits its parent's.
"""

import multiprocessing
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from scalednl.errors import CommandError

Prepare = Callable[..., Callable[[], object]]
STATUS = Path("/proc/self/status")


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
        before = _start_of_peak(device)
        step = prepare(*arguments)
        before = before if with_inputs else _start_of_peak(device)
        times = interleaved({"": step}, runs, warm_up=0, device=device)[""]
        sender.send(Peak(max(0, _peak(device) - before), times[-1]))
    except (RuntimeError, MemoryError) as error:
        sender.send(str(error).splitlines()[0])


def _start_of_peak(device: str) -> int:
    """What is held now; the peak counts from here."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    return _status("VmRSS") if STATUS.is_file() else _peak(device)


def _peak(device: str) -> int:
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device)
    if STATUS.is_file():
        return _status("VmHWM")
    # macOS counts bytes, others kibibytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _status(field: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{STATUS} has no {field}")
