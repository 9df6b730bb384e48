"""One forward pass that writes down what every module gives, without disturbing the model."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

SIDES = (224, 64, 32)


@dataclass(frozen=True)
class Seen:
    """What a module gave in one forward pass of the model."""

    maps: tuple[int, ...] | None
    """The shape of its output, where that is one 4-D tensor"""
    what: str
    """Its output in words, where it is something else"""
    calls: int
    finished: int
    """When its last call ended, counted over all modules"""
    channels: frozenset[int | None]
    """The channels that its calls gave; more than one where it is used for several widths"""


def example_for(model: nn.Module, example: Any) -> Any:
    """`example` itself, or random images that the model takes."""
    if example is not None:
        return example
    first = next((m for m in model.modules() if isinstance(m, nn.Conv2d)), None)
    if first is None:
        raise ValueError(
            f"{type(model).__name__} has no Conv2d to guess its input from: pass example=..."
        )
    like = first.weight
    problem = ""
    for side in SIDES:
        images = torch.randn(2, first.in_channels, side, side, device=like.device, dtype=like.dtype)
        try:
            run_quietly(model, images)
        except Exception as error:  # any model, any error: the next size may do
            problem = f"{type(error).__name__}: {error}"
        else:
            return images
    raise ValueError(
        f"{type(model).__name__} does not run on random images of {first.in_channels} channels and "
        f"{' or '.join(f'{s} x {s}' for s in SIDES)} ({problem}): pass example=..."
    )


def probe(model: nn.Module, example: Any) -> dict[str, Seen]:
    """What every module of `model` gives for `example`, by path; modules not called are missing."""
    seen: dict[str, Seen] = {}
    handles = []
    clock = 0

    def watch(path: str) -> Any:
        def note(_module: nn.Module, _inputs: object, output: object) -> None:
            nonlocal clock
            clock += 1
            maps = tuple(output.shape) if isinstance(output, Tensor) and output.dim() == 4 else None
            before = seen.get(path, Seen(maps, "", 0, 0, frozenset()))
            channels = before.channels | {maps[1] if maps else None}
            seen[path] = Seen(maps, _words(output), before.calls + 1, clock, channels)

        return note

    try:
        for path, module in model.named_modules():
            handles.append(module.register_forward_hook(watch(path)))
        run_quietly(model, example)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def outputs_of(model: nn.Module, example: Any) -> list[Tensor]:
    """Every floating-point tensor in the model's output for `example`."""
    inputs = example if isinstance(example, tuple) else (example,)
    return [t for t in _tensors(model(*inputs)) if t.is_floating_point()]


def run_quietly(model: nn.Module, example: Any) -> list[Tensor]:
    """The same in evaluation mode, without gradients, and leaving no trace in the model."""
    with evaluating(model), torch.no_grad():
        return outputs_of(model, example)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for every module, and afterwards the mode that each one had."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _words(output: object) -> str:
    if isinstance(output, Tensor):
        return f"a tensor of shape {tuple(output.shape)}"
    return f"a {type(output).__name__}"


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors(v)]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _tensors(v)]
    return []
