"""Interleaved timing, and the distance of two tensors."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from scalednl.lab.records.bench import Timing

Step = Callable[[], object]


def interleaved(
    steps: Mapping[str, Step], repeats: int, warm_up: int = 2, device: str = "cpu"
) -> dict[str, list[float]]:
    """Seconds of `repeats` runs of every step, one run of each in turn, after a warm-up.

    Taking turns lets a slow moment of the machine fall on all steps alike. On a GPU the clock is
    the device's own, by events; a step begins on an idle device, so launches that take longer than
    the work are in its time.
    """
    on_gpu = torch.device(device).type == "cuda"
    clock = _seconds_on_gpu if on_gpu else _seconds
    times: dict[str, list[float]] = {name: [] for name in steps}
    # Events are recorded on the stream of the current device.
    with torch.cuda.device(device) if on_gpu else nullcontext():
        for step in steps.values():
            for _ in range(warm_up):
                step()
        for _ in range(repeats):
            for name, step in steps.items():
                times[name].append(clock(step))
    return times


def timings(
    steps: Mapping[str, Step], repeats: int, warm_up: int = 2, device: str = "cpu"
) -> dict[str, Timing]:
    """The same as median and quartiles per step."""
    runs = interleaved(steps, repeats, warm_up, device)
    return {name: Timing.of([1e3 * run for run in times]) for name, times in runs.items()}


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
