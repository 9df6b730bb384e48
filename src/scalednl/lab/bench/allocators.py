"""The same steps under both settings of the allocator, in turns.

Here freed memory is kept; a fresh process, the twin, has glibc's default settings. Setting them
back in one process would not do: once changed, glibc no longer adapts its thresholds to the
program, so the default would be another one than users have.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from scalednl.lab.allocator import current_allocator
from scalednl.lab.bench.measure import Round, Steps, one_round, run_all, summaries
from scalednl.lab.bench.process import FreshProcess
from scalednl.lab.machine import core_seconds, share_waited
from scalednl.lab.records.timing import Timing

PAUSE = 0.25
"""Seconds until threads of the other process no longer spin, and the system has taken its pages"""


@dataclass(frozen=True)
class BothTimings:
    """Times per step with this process's allocator, and in the twin; empty if there is none."""

    here: dict[str, Timing]
    default: dict[str, Timing] = field(default_factory=dict)
    waited: float | None = None
    """Share of the time in which threads of the twin waited for a core"""


def timings_with_both(
    steps: Steps,
    prepare: Callable[..., Steps],
    *arguments: Any,
    repeats: int,
    warm_up: int = 1,
    device: str = "cpu",
) -> BothTimings:
    """Time the steps here, and those that `prepare(*arguments)` makes in the twin: round by round.

    Without a twin where this process does not keep freed memory, or where a GPU computes.
    """
    run_all(steps, warm_up)
    here: list[Round] = []
    default: list[Round] = []
    allocator = current_allocator()
    if device != "cpu" or allocator is None or allocator.state != "kept":
        return BothTimings(summaries([one_round(steps, device) for _ in range(repeats)]))
    what = "measuring with glibc's default settings"
    with FreshProcess(what, _take_turns, prepare, arguments, warm_up, repeats) as twin:
        assert twin.receive() == "ready"
        for _ in range(repeats):
            here.append(_turn(steps))
            twin.send("your turn")
            default.append(twin.receive())
        waited = twin.receive()
    return BothTimings(summaries(here), summaries(default), waited)


def _take_turns(
    connection: Connection,
    prepare: Callable[..., Steps],
    arguments: tuple[Any, ...],
    warm_up: int,
    repeats: int,
) -> None:
    since = core_seconds()
    steps = prepare(*arguments)
    run_all(steps, warm_up)
    connection.send("ready")
    for _ in range(repeats):
        connection.recv()
        connection.send(_turn(steps))
    connection.send(share_waited(since))


def _turn(steps: Steps) -> Round:
    """A round after a pause."""
    time.sleep(PAUSE)
    return one_round(steps)


def default_cells(time: Timing | None) -> tuple[str, str]:
    """Two cells of a table: the time with glibc's default settings, and its page faults."""
    if time is None:
        return "", ""
    return str(time), "" if time.page_faults is None else f"{time.page_faults:,}"
