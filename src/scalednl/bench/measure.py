"""Interleaved timing, and exact accounting of what a forward pass keeps for its backward."""

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch
from torch import Tensor, nn

Step = Callable[[], object]


def interleaved(
    steps: Mapping[str, Step], repeats: int, warm_up: int = 2
) -> dict[str, list[float]]:
    """Seconds of `repeats` runs of every step, one run of each in turn, after a warm-up.

    Taking turns lets a slow moment of the machine fall on all steps alike; compare them with
    `fastest` or `typical`.
    """
    for step in steps.values():
        for _ in range(warm_up):
            step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    return times


def fastest(times: Mapping[str, list[float]]) -> dict[str, float]:
    """The best run of every step."""
    return {name: min(runs) for name, runs in times.items()}


def typical(times: Mapping[str, list[float]]) -> dict[str, float]:
    """The median run of every step."""
    return {name: median(runs) for name, runs in times.items()}


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


def bytes_kept(module: nn.Module, x: Tensor) -> int:
    """Bytes that one forward pass keeps for backward: distinct storages, parameters left out."""
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    seen: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = module(x)
    del result
    return sum(seen.values())


def relative_error(value: Tensor, truth: Tensor) -> float:
    """|value - truth| / |truth| in the Euclidean norm."""
    value, truth = value.detach().double(), truth.detach().double()
    return ((value - truth).norm() / truth.norm()).item()
