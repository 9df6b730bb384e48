"""Interleaved timing with page faults counted, and the distance of two tensors."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor, nn

from scalednl.lab.machine import page_faults
from scalednl.lab.records.timing import Timing

Step = Callable[[], object]
Steps = Mapping[str, Step]
SETTLE = 0.1
"""Seconds for which the cores are busy with a step before it is timed"""


class Run(NamedTuple):
    """One run of a step."""

    seconds: float
    page_faults: int | None
    """Minor ones of this process; None where they are not counted"""


Round = dict[str, Run]
"""One run of every step"""


def interleaved(steps: Steps, repeats: int, warm_up: int = 2, device: str = "cpu") -> list[Round]:
    """`repeats` rounds, each with one timed run of every step in turn, after a warm-up.

    Taking turns lets a slow moment of the machine fall on all steps alike. On a GPU the clock is
    the device's own, by events; a step begins on an idle device, so launches that take longer than
    the work are in its time.
    """
    run_all(steps, warm_up)
    return [one_round(steps, device) for _ in range(repeats)]


def run_all(steps: Steps, times: int) -> None:
    """Run every step so many times, untimed."""
    for step in steps.values():
        for _ in range(times):
            step()


def one_round(steps: Steps, device: str = "cpu") -> Round:
    """One timed run of every step, after untimed ones.

    Otherwise a step would begin with what the step before it left in the caches, or with cores that
    still wake up after a pause.
    """
    on_gpu = torch.device(device).type == "cuda"
    clock = _seconds_on_gpu if on_gpu else _seconds
    found: Round = {}
    # Events are recorded on the stream of the current device.
    with torch.cuda.device(device) if on_gpu else nullcontext():
        for name, step in steps.items():
            _settle(step)
            before = page_faults()
            seconds = clock(step)
            after = page_faults()
            found[name] = Run(seconds, None if after is None or before is None else after - before)
    return found


def timings(steps: Steps, repeats: int, warm_up: int = 2, device: str = "cpu") -> dict[str, Timing]:
    """The same as median and quartiles per step."""
    return summaries(interleaved(steps, repeats, warm_up, device))


def summaries(rounds: Sequence[Round]) -> dict[str, Timing]:
    """Median and quartiles per step, and the median of its page faults."""
    found = {}
    for name in rounds[0] if rounds else ():
        runs = [one[name] for one in rounds]
        faults = [run.page_faults for run in runs if run.page_faults is not None]
        milliseconds = [1e3 * run.seconds for run in runs]
        found[name] = Timing.of(milliseconds, round(median(faults)) if faults else None)
    return found


def _settle(step: Step) -> None:
    """Run a step untimed: once, or until the cores have been busy with it for SETTLE seconds."""
    start = time.perf_counter()
    step()
    while time.perf_counter() - start < SETTLE:
        step()


def _seconds(step: Step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _seconds_on_gpu(step: Step) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    step()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def training_step(module: nn.Module, x: Tensor, grad: Tensor) -> Step:
    """Forward and backward of a module, with gradients for x and every parameter."""
    inputs = [x, *module.parameters()]
    return lambda: torch.autograd.grad(module(x), inputs, grad)


def inference_step(module: nn.Module, x: Tensor) -> Step:
    """Forward of a module without gradients."""

    def step() -> Tensor:
        with torch.no_grad():
            return module(x)

    return step


def relative_error(value: Tensor, truth: Tensor) -> float:
    """|value - truth| / |truth| in the Euclidean norm."""
    value, truth = value.detach().double(), truth.detach().double()
    return ((value - truth).norm() / truth.norm()).item()
