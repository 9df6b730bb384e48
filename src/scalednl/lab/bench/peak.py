"""Peak memory of one piece of work, each in a fresh process: nothing earlier can hide in it.

The number is the growth of the process's resident memory up to its peak, from just before the step,
or from before its inputs were made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from scalednl.lab.bench.process import FreshProcess
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
    what = f"measuring the memory of {prepare.__name__}{arguments}"
    with FreshProcess(what, _measure, prepare, arguments, device, runs, with_inputs) as process:
        found: Peak = process.receive()
        return found


def _measure(
    connection: Connection,
    prepare: Prepare,
    arguments: tuple[Any, ...],
    device: str,
    runs: int,
    with_inputs: bool,
) -> None:
    from scalednl.lab.bench.measure import interleaved

    before = current_bytes(device)
    step = prepare(*arguments)
    before = before if with_inputs else current_bytes(device)
    rounds = interleaved({"": step}, runs, warm_up=0, device=device)
    growth = (peak_bytes(device) or 0) - (before or 0)
    connection.send(Peak(max(0, growth), rounds[-1][""].seconds))
