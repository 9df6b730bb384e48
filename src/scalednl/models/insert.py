"""Non-local blocks put into anybody's network, and proof that it changed what it should."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from scalednl.blocks import NonLocalBlock
from scalednl.config import BlockConfig
from scalednl.models.feature_layout import FeatureLayout, LayoutError, find_layout
from scalednl.models.insert_checks import (
    check_batch_axis,
    check_calls,
    check_gradients,
    check_output,
)
from scalednl.models.inserted import Attachment, InsertedStack, attach, has_stack, places
from scalednl.models.insertion_report import Checks, Insertion, InsertionReport
from scalednl.models.probe import Call, Probe, probe_twice
from scalednl.models.stack import stack_parts
from scalednl.options import suggestion

Size = int | tuple[int, ...]
Place = str | Size
SLOW = 5.0
"""Seconds of trials from which on they are announced"""
CHECKS = 4
"""Forward passes that take as long as the checks, two of them backward"""
logger = logging.getLogger(__name__)
MOST_TRIES = 6
"""Places for one stack's weights that are tried before it is refused"""
WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule", "OptimizedModule")


@dataclass(frozen=True)
class _Target:
    path: str
    module: nn.Module
    layout: FeatureLayout
    calls: list[Call]
    count: int


def insert_nonlocal(
    model: nn.Module,
    at: Place | Sequence[Place] | Mapping[Place, int],
    count: int = 1,
    *,
    block: BlockConfig | None = None,
    position: bool = False,
    example: Any = None,
    check: bool = True,
) -> tuple[nn.Module, InsertionReport]:
    """Put stacks of non-local blocks behind modules of a model, in place, and check them.

    Names of existing weights do not change; the new ones are `<path>.nonlocal_.*`, or, behind
    modules that loop over their children, `<path>.<child>.nonlocal_after_<name>.*`. With the
    defaults (batch norm starting at 0, no position) the network computes exactly what it did
    before. If any check fails, `model` is left as it was.

    The channel axis is found by running the model at two sizes, so features of NCHW, NHWC, tokens
    (batch, length, channels), sequences (NCL) and videos (NCTHW, NTHWC) are all served.

    Args:
        model: any module whose forward pass reaches the places.
        at: the path of a module ("layer2", "stages.1.3"); or a size of maps (28, or (28, 14)): the
            outermost module that gives maps of that size, the last one if there are several; or a
            list of such places; or a mapping from places to their counts, {"layer2": 2, 14: 1}.
        count: how many blocks, back to back, at each place.
        block: their options; None: the defaults.
        position: add the fixed encoding before each stack; for features with height and width.
        example: an input of the model: a tensor, a tuple of arguments, a dict of keyword arguments,
            or whatever its forward takes; None tries random inputs.
        check: compare the output with the original's and check that every new parameter receives
            gradient. That each stack runs exactly once per call is always checked. Checks that
            will take more than 5 seconds are announced by a warning of the logger
            "scalednl.models.insert".
    """
    _check_model(model)
    counts = _counts(at, count, position)
    config = BlockConfig() if block is None else block
    if not isinstance(config, BlockConfig):
        raise ValueError(
            f"block must be a scalednl.BlockConfig, which has the options of the blocks, but got a "
            f"{type(block).__name__}"
        )
    identity = not position and config.norm and config.norm_init == 0
    # Blocks made in inference mode could never be trained.
    with torch.inference_mode(False):
        first, second = probe_twice(model, example)
        targets = _targets(model, counts, first, second)
        trial = second if all(t.module in second.calls for t in targets) else first
        _announce(trial, len(targets), check)
        attached: list[Attachment] = []
        try:
            for target in targets:
                attached.append(_insert(model, target, config, position, trial))
            checked = _check(model, attached, trial, identity) if check else None
        except BaseException:
            for attachment in reversed(attached):
                attachment.remove()
            raise
    insertions = tuple(_describe(*both) for both in zip(targets, attached, strict=True))
    return model, InsertionReport(insertions, checked)


def _announce(trial: Probe, places: int, check: bool) -> None:
    """Say how long slow trials will take, before they begin."""
    passes = places + (CHECKS if check else 0)
    if trial.seconds * passes > SLOW:
        advice = "; check=False leaves most of them out" if check else ""
        logger.warning(
            "insert_nonlocal runs the model on trial inputs for about %d s%s",
            round(trial.seconds * passes),
            advice,
        )


def _check(model: nn.Module, attached: list[Attachment], before: Probe, identity: bool) -> Checks:
    difference = check_output(model, attached, before, identity)
    return Checks(difference, check_gradients(model, attached, before.example))


def _check_model(model: nn.Module) -> None:
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(
            "model is a ScriptModule, which cannot be changed: insert before scripting"
        )
    if any(p.is_inference() for p in model.parameters() if not is_lazy(p)):
        raise ValueError(
            "the model was made under torch.inference_mode(), so nothing in it can learn: make it "
            "outside"
        )
    for module in model.modules():
        kinds = {kind.__name__ for kind in type(module).__mro__}
        found = next((name for name in WRAPPERS if name in kinds), None)
        if found:
            raise ValueError(
                f"the model is wrapped ({found}), and the wrapper would not know the new weights: "
                "insert the blocks first, then wrap or compile"
            )


def _counts(at: object, count: object, position: bool) -> dict[Any, int]:
    """Place -> how many blocks."""
    places = [at] if _is_place(at) else list(at) if isinstance(at, Sequence | Mapping) else []
    if not places or not all(map(_is_place, places)):
        raise ValueError(
            f"at={at!r} is not a module path, a size of maps, a list of these, or a mapping from "
            "these to counts"
        )
    counts: dict[Any, Any] = dict.fromkeys(places, count)
    counts.update(at if isinstance(at, Mapping) else {})
    for place, blocks in counts.items():
        if not isinstance(blocks, int) or isinstance(blocks, bool) or blocks < (not position):
            least = "0 with position=True" if position else "1"
            raise ValueError(f"count must be at least {least}, got {blocks!r} at {place!r}")
    return counts


def _is_place(value: object) -> bool:
    sizes = value if isinstance(value, tuple) else (value,)
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in sizes)
    return isinstance(value, str) or (whole and sizes != ())


def _targets(
    model: nn.Module, counts: dict[Any, int], first: Probe, second: Probe
) -> list[_Target]:
    known = dict(model.named_modules(remove_duplicate=False))
    targets: dict[nn.Module, _Target] = {}
    written: dict[nn.Module, Place] = {}
    for place, count in counts.items():
        path = place if isinstance(place, str) else _outermost(known, place, first, second)
        module = _module_at(model, known, path, first)
        try:
            layout = find_layout(module, first, second)
            if layout.channel_axis == -1:
                tried = second if module in second.calls else first
                check_batch_axis(model, module, tried.example)
        except LayoutError as error:
            raise ValueError(f"{path!r} ({type(module).__name__}) {error}") from None
        if module in targets:
            raise ValueError(f"{written[module]!r} and {place!r} are the same module")
        written[module] = place
        targets[module] = _Target(path, module, layout, first.calls[module], count)
    return list(targets.values())


def _module_at(
    model: nn.Module, known: Mapping[str, nn.Module], path: str, first: Probe
) -> nn.Module:
    if path not in known or not path:
        paths = [p for p in known if p]
        start = f"no module at {path!r}" if path else "at='' is the model, not a module in it"
        near = suggestion(path, paths) or f": there are {', '.join(paths[:7])}, ..."
        raise ValueError(start + near)
    module = known[path]
    if isinstance(module, torch.jit.ScriptModule):
        raise ValueError(f"{path!r} is a ScriptModule, which cannot be changed")
    if module not in first.calls:
        raise ValueError(
            f"the forward pass of {type(model).__name__} never calls {path!r} "
            f"({type(module).__name__}) in evaluation mode: choose a module that it does call"
        )
    if has_stack(module):
        raise ValueError(f"{path!r} has non-local blocks already")
    return module


def _outermost(known: Mapping[str, nn.Module], size: Size, first: Probe, second: Probe) -> str:
    """The path of the last of the outermost modules that give features of this size."""
    size = (size, size) if isinstance(size, int) else size
    found: dict[str, tuple[int, ...]] = {}
    for path, module in known.items():
        if path and module in first.calls:
            try:
                layout = find_layout(module, first, second)
            except LayoutError:
                continue
            found[path] = layout.space(first.calls[module][-1].shape or ())
    fitting = [path for path, space in found.items() if space == size]
    if not fitting:
        sizes = sorted({space for space in found.values() if len(space) == len(size)}, reverse=True)
        raise ValueError(f"no module gives maps of {size}: the sizes seen are {sizes}")
    depth = min(path.count(".") for path in fitting)
    outermost = [path for path in fitting if path.count(".") == depth]
    return max(outermost, key=lambda path: first.calls[known[path]][-1].time)


def _insert(
    model: nn.Module, target: _Target, config: BlockConfig, position: bool, trial: Probe
) -> Attachment:
    """A new stack in the first place where it runs exactly once per call."""
    stack = _make(target, config, position)
    problem: Exception | None = None
    for where in list(places(target.module, target.path))[:MOST_TRIES]:
        attachment = attach(target.module, stack, where, target.path)
        try:
            check_calls(model, attachment, trial.example)
        except BaseException as error:
            attachment.remove()
            if not isinstance(error, Exception):
                raise
            problem = problem or error
        else:
            return attachment
    raise RuntimeError(
        f"blocks cannot run behind {target.path!r} ({type(target.module).__name__}): {problem}"
    ) from problem


def _make(target: _Target, config: BlockConfig, position: bool) -> InsertedStack:
    layout, call = target.layout, target.calls[-1]
    if layout.dims != 2 and position:
        raise ValueError(
            f"position=True needs features with height and width, but {target.path!r} gives "
            f"{layout.name}"
        )
    if layout.name == "tokens" and config.key_pool:
        raise ValueError(
            f"key_pool={config.key_pool!r} pools neighbours of a map, but {target.path!r} gives "
            "tokens: use key_pool=None"
        )
    assert call.shape is not None
    channels = layout.channels(call.shape)
    try:
        parts = stack_parts(channels, config, target.count, position, layout.dims)
    except ValueError as error:
        raise ValueError(f"{target.path!r} gives {channels} channels: {error}") from None
    stack = InsertedStack(parts).to(call.device, call.dtype)
    stack.layout = layout
    stack.train(target.module.training)
    return stack


def _describe(target: _Target, attachment: Attachment) -> Insertion:
    layout = target.layout
    blocks = [m for m in attachment.stack if isinstance(m, NonLocalBlock)]
    spaces = [layout.space(call.shape or ()) for call in target.calls]
    shape = target.calls[-1].shape
    assert shape is not None
    channels = layout.channels(shape)
    shapes = [(1, channels, *space) for space in spaces]
    costs = [b.plan(s, training=False).multiply_adds for b in blocks for s in shapes]
    training = [block.plan(shapes[-1], training=True) for block in blocks]
    return Insertion(
        path=target.path,
        weights=attachment.weights,
        layout=layout.name,
        channels=channels,
        space=spaces[-1],
        prefix=layout.prefix,
        calls=len(spaces),
        count=target.count,
        parameters=sum(p.numel() for p in attachment.stack.parameters()),
        order=", ".join(dict.fromkeys(str(plan.choice) for plan in training)) or "-",
        multiply_adds=sum(costs),
    )
