"""Non-local blocks put into anybody's network, and proof that it changed what it should."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, nn

from scalednl.blocks import NonLocal2d
from scalednl.config import NonLocalConfig
from scalednl.models.probe import Seen, example_for, outputs_of, probe, run_quietly
from scalednl.models.stack import make_stack

CHILD = "nonlocal_"


@dataclass(frozen=True)
class Insertion:
    """One stack that was put in."""

    path: str
    channels: int
    height: int
    width: int
    calls: int
    """How often one forward pass runs it"""
    parameters: int
    order: str
    multiply_adds: int
    """Of one image's forward pass, all blocks and calls"""


@dataclass(frozen=True)
class InsertionReport:
    """Where blocks went in, what they cost, and what was checked."""

    insertions: tuple[Insertion, ...]
    unchanged: bool
    """Whether the output was compared with the original's and found equal, bit for bit"""

    @property
    def parameters(self) -> int:
        """Parameters added in all."""
        return sum(insertion.parameters for insertion in self.insertions)

    def __str__(self) -> str:
        lines = [f"{'after':<24} {'map':>16} {'parameters':>11} {'multiply-adds':>14}  order"]
        for i in self.insertions:
            calls = f" x{i.calls}" if i.calls > 1 else ""
            size = f"{i.channels}x{i.height}x{i.width}{calls}"
            lines.append(
                f"{i.path:<24} {size:>16} {i.parameters:>11,} {i.multiply_adds / 1e6:>12.1f} M  "
                f"{i.order}"
            )
        lines.append(
            "checked: output shape unchanged; every new parameter receives gradient; "
            + ("output equal, bit for bit" if self.unchanged else "output not compared")
        )
        return "\n".join(lines)


def insert_nonlocal(
    model: nn.Module,
    at: str | int | tuple[int, int] | Sequence[str],
    blocks: int = 1,
    config: NonLocalConfig | None = None,
    position: bool = False,
    example: Any = None,
) -> tuple[nn.Module, InsertionReport]:
    """Put a stack of non-local blocks behind a module of a model, in place, and check it.

    Names of existing weights do not change; the new ones are `<path>.nonlocal_.*`. With the
    defaults (batch norm starting at 0, no position) the network computes exactly what it did
    before. If any check fails, `model` is left as it was.

    Args:
        model: any module whose forward pass reaches the place.
        at: the path of a module ("layer2", "stages.1.3"), several paths, or a size of maps (28, or
            (28, 14)): then the last module of the forward pass that gives maps of that size.
        blocks: how many blocks, back to back.
        config: their options; its own `blocks` and `stage` have no say here.
        position: add the fixed encoding before each stack.
        example: an input of the model (a tensor, or a tuple of arguments) for the probe; None tries
            random images of 224 x 224, then of 64 x 64 and 32 x 32.
    """
    config = replace(config or NonLocalConfig(), blocks=blocks)
    if not blocks and not position:
        raise ValueError("blocks=0 without position inserts nothing: use blocks=1 or more")
    example = example_for(model, example)
    seen = probe(model, example)
    paths = _paths(model, at, seen)
    unchanged = not position and config.norm and config.norm_init == 0
    trial = copy.deepcopy(model)
    _insert(trial, paths, seen, config, position)
    _check_output(model, trial, example, unchanged)
    _check_gradients(trial, paths, example)
    new = {path: trial.get_submodule(path).get_submodule(CHILD) for path in paths}
    like = next(model.parameters(), torch.empty(0))
    for path, stack in new.items():
        _attach(model.get_submodule(path), copy.deepcopy(stack).to(like.device, like.dtype))
    report = InsertionReport(tuple(_describe(path, seen[path], model) for path in paths), unchanged)
    return model, report


def _paths(model: nn.Module, at: object, seen: dict[str, Seen]) -> list[str]:
    """The paths that `at` means, each a module whose output is one 4-D tensor."""
    if isinstance(at, int) or (isinstance(at, tuple) and all(isinstance(v, int) for v in at)):
        size = (at, at) if isinstance(at, int) else at
        fitting = [
            path
            for path, s in seen.items()
            if path and s.maps and s.maps[2:] == size and len(s.channels) == 1
        ]
        if not fitting:
            sizes = sorted({s.maps[2:] for p, s in seen.items() if p and s.maps}, reverse=True)
            raise ValueError(f"no module gives maps of {size}: the sizes seen are {sizes}")
        return [max(fitting, key=lambda path: seen[path].finished)]
    paths = [at] if isinstance(at, str) else list(at) if isinstance(at, Sequence) else []
    if not paths or not all(isinstance(path, str) for path in paths):
        raise ValueError(f"at={at!r} is not a module path, a list of paths, or a size of maps")
    known = dict(model.named_modules())
    for path in paths:
        if path not in known or not path:
            near = get_close_matches(path, known, n=5, cutoff=0.3) or list(known)[1:8]
            raise ValueError(f"no module at {path!r}: there are {', '.join(near)}, ...")
        if path not in seen:
            raise ValueError(
                f"the forward pass of the example never calls {path!r} "
                f"({type(known[path]).__name__}): choose a module that it does call"
            )
        if seen[path].maps is None:
            raise ValueError(
                f"{path!r} ({type(known[path]).__name__}) gives {seen[path].what}, but blocks need "
                "one tensor of (batch, channels, height, width)"
            )
        if len(seen[path].channels) > 1:
            raise ValueError(
                f"{path!r} ({type(known[path]).__name__}) is used for maps of several widths, "
                f"{sorted(map(str, seen[path].channels))} channels: one stack cannot serve them all"
            )
        if hasattr(known[path], CHILD):
            raise ValueError(f"{path!r} has non-local blocks already")
    return list(dict.fromkeys(paths))


def _insert(
    model: nn.Module,
    paths: list[str],
    seen: dict[str, Seen],
    config: NonLocalConfig,
    position: bool,
) -> None:
    for path in paths:
        maps = seen[path].maps
        assert maps is not None
        stack = make_stack(maps[1], config, position)
        assert stack is not None
        like = next(model.parameters(), torch.empty(0))
        _attach(model.get_submodule(path), stack.to(like.device, like.dtype))


def _attach(module: nn.Module, stack: nn.Module) -> None:
    """Run `stack` behind `module`. A Sequential runs a new child by itself, others need a hook."""
    module.add_module(CHILD, stack)
    if type(module).forward is not nn.Sequential.forward:
        module.register_forward_hook(_run_stack)


def _run_stack(module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
    stack = module.get_submodule(CHILD)
    return stack(output)


def _check_output(model: nn.Module, trial: nn.Module, example: Any, unchanged: bool) -> None:
    before, after = run_quietly(model, example), run_quietly(trial, example)
    shapes = [[tuple(t.shape) for t in run] for run in (before, after)]
    if shapes[0] != shapes[1]:
        raise RuntimeError(f"the output's shape changed from {shapes[0]} to {shapes[1]}")
    same = all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    if unchanged and not same:
        raise RuntimeError(
            "the output changed although the new blocks start as the identity: is the model random "
            "in evaluation mode?"
        )


def _check_gradients(trial: nn.Module, paths: list[str], example: Any) -> None:
    """Every new parameter receives gradient once gamma is 1; at 0, only the norm does.

    In evaluation mode, so that an example of one image will do.
    """
    for gamma in (None, 1.0):
        copied = copy.deepcopy(trial).eval()
        blocks = [
            (f"{path}.{CHILD}.{name}", module)
            for path in paths
            for name, module in copied.get_submodule(path).get_submodule(CHILD).named_modules()
            if isinstance(module, NonLocal2d)
        ]
        if gamma is not None:
            for _, block in blocks:
                if isinstance(block.norm, nn.BatchNorm2d):
                    nn.init.constant_(block.norm.weight, gamma)
        outputs = outputs_of(copied, example)
        torch.autograd.backward(outputs, [torch.randn_like(t) for t in outputs])
        for path, block in blocks:
            for name, parameter in block.named_parameters():
                _check_gradient(f"{path}.{name}", block, name, parameter, gamma)


def _check_gradient(
    path: str, block: NonLocal2d, name: str, parameter: nn.Parameter, gamma: float | None
) -> None:
    gradient = parameter.grad
    moved = gradient is not None and bool(gradient.any())
    if gamma is None:
        gated = isinstance(block.norm, nn.BatchNorm2d) and not bool(block.norm.weight.any())
        if gated and moved and not name.startswith("norm"):
            raise RuntimeError(f"{path} receives gradient although the block's gamma is 0")
        return
    # Softmax does not see phi's bias: it adds the same to every key.
    if not moved and (name.startswith("norm") or not name.endswith("bias")):
        dead = " (init=0.0 makes a dead block)" if block.init == 0 else ""
        raise RuntimeError(f"{path} receives no gradient{dead}: the output does not depend on it")


def _describe(path: str, seen: Seen, model: nn.Module) -> Insertion:
    assert seen.maps is not None
    _, channels, height, width = seen.maps
    stack = model.get_submodule(path).get_submodule(CHILD)
    blocks = [m for m in stack.modules() if isinstance(m, NonLocal2d)]
    plans = [block.plan((1, channels, height, width), training=False) for block in blocks]
    training = [block.plan((1, channels, height, width), training=True) for block in blocks]
    return Insertion(
        path,
        channels,
        height,
        width,
        seen.calls,
        sum(p.numel() for p in stack.parameters()),
        ", ".join(dict.fromkeys(str(plan.choice) for plan in training)) or "-",
        seen.calls * sum(plan.multiply_adds for plan in plans),
    )
