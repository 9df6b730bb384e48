"""What a foreign block computes, found by trial.

A float64 copy of the block gets random weights and random maps of two sizes. From its theta, phi, g
and y the attention is fitted (`models.fit_attention`). The block of ours that follows from it is
then compared with the foreign one, in values and gradients, in evaluation and training, with random
weights and with the block's own. Only a match counts.
"""

import copy
from collections import OrderedDict
from collections.abc import Iterable
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from scalednl.blocks.folding import CONVOLUTIONS
from scalednl.blocks.forward import pool, pool_kernel
from scalednl.models.assemble import Parts, assemble, parts_of
from scalednl.models.fit_attention import TOLERANCE, Function, Seen, functions, relative
from scalednl.models.foreign import ConversionError, Names
from scalednl.options import USUAL_POOL, PoolSize

SPACES = {1: ((7,), (16,)), 2: ((3, 5), (7, 6)), 3: ((2, 3, 5), (3, 5, 4))}
"""Two maps for each number of axes; pooled or not, their numbers of keys have another ratio.
For other pools than the usual one they grow with it, so that they have as many keys."""
LARGE = {1: (512,), 2: (16, 32), 3: (4, 8, 16)}
"""A map of a usual size, on which a block must not do something else than on the small ones"""
LARGEST_POOL = 64
"""Pixels per key up to which a pool is tried: the maps that it needs are still small"""
HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
TORCH_UTILS = "torch.nn.utils"
"""Where the hooks come from that compute weights, such as spectral norm's"""
_MAX_POOL = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
_AVERAGE_POOL = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
_BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def identify(module: nn.Module, names: Names) -> tuple[Function, float]:
    """What the block computes, and the largest relative difference from ours; may raise."""
    if any(parameter.is_meta for parameter in module.parameters()):
        raise ConversionError("has no weights yet, it is on the meta device")
    parts_of(module, names)
    own = _trial_copy(module)
    trial = copy.deepcopy(own)
    parts = parts_of(trial, names)
    _randomise(trial, parts)
    sizes = _pool_sizes(module, parts.dims)
    *spaces, large = _spaces(sizes, parts.dims)
    seen = [_observe(trial.eval(), parts, sizes, space) for space in spaces]
    _refuse_more_axes(trial, parts, spaces[0])
    function = next(functions(seen, parts.channels), None)
    if function is None:
        raise ConversionError(_unknown_function(module))
    random = _difference(trial, names, function, spaces, large)
    return function, max(random, _difference(own, names, function, spaces))


def _pool_sizes(module: nn.Module, dims: int) -> list[PoolSize]:
    """The sizes of key pools to try: the usual one, and those of the block's own modules."""
    sizes: list[PoolSize] = [USUAL_POOL]
    for part in module.modules():
        if not isinstance(part, _MAX_POOL[dims - 1]) or part.ceil_mode:
            continue
        kernel, stride, padding, dilation = (
            value if isinstance(value, tuple) else (value,) * dims
            for value in (part.kernel_size, part.stride, part.padding, part.dilation)
        )
        plain = kernel == stride and not any(padding) and set(dilation) == {1}
        if plain and prod(kernel) <= LARGEST_POOL:
            same = pool_kernel("after", kernel[-1], dims) == kernel
            sizes.append(kernel[-1] if same else kernel)
    return list(dict.fromkeys(sizes))


def _spaces(sizes: Iterable[PoolSize], dims: int) -> list[tuple[int, ...]]:
    """`SPACES` and `LARGE` for keys pooled by any of these sizes."""
    usual = pool_kernel("after", USUAL_POOL, dims)
    kernels = [pool_kernel("after", size, dims) for size in sizes]
    largest = [max(axis) for axis in zip(*kernels, strict=True)]
    spaces = [
        tuple(n // u * k + n % u for n, u, k in zip(space, usual, largest, strict=True))
        for space in SPACES[dims]
    ]
    return [*spaces, tuple(map(max, LARGE[dims], largest))]


def _trial_copy(module: nn.Module) -> nn.Module:
    """A float64 copy on the CPU without hooks, but for those that compute weights."""
    memo: dict[int, Any] = {}
    for part in module.modules():
        for name in HOOKS:
            hooks = getattr(part, name)
            computing = [k for k, h in hooks.items() if type(h).__module__.startswith(TORCH_UTILS)]
            memo[id(hooks)] = OrderedDict((key, hooks[key]) for key in computing)
        # Results that a block remembers, such as its last map, cannot be copied by deepcopy.
        results = [v for v in vars(part).values() if isinstance(v, Tensor) and not v.is_leaf]
        memo.update({id(result): result.detach().clone() for result in results})
    trial = copy.deepcopy(module, memo).double().cpu().requires_grad_(False)
    dims = next(len(m.kernel_size) for m in trial.modules() if isinstance(m, CONVOLUTIONS))
    for part in trial.modules():
        if isinstance(part, nn.SyncBatchNorm):
            # The same statistics, but a trial must not wait for other processes.
            part.__class__ = _BATCH_NORM[dims - 1]  # type: ignore[assignment]
    return trial


def _randomise(trial: nn.Module, parts: Parts) -> None:
    """Weights that tell every variant from the others, with dot products of about 1."""
    for conv in parts.convolutions.values():
        if type(conv) in CONVOLUTIONS and "weight" in conv._parameters:
            nn.init.normal_(conv.weight, std=conv.in_channels**-0.5)
            if conv.bias is not None:
                nn.init.normal_(conv.bias, std=0.5)
    for conv in {parts.theta, parts.phi}:
        if type(conv) in CONVOLUTIONS and "weight" in conv._parameters:
            for parameter in conv.parameters():
                parameter.mul_(conv.out_channels**-0.25)
    if parts.norm is not None:
        for parameter in parts.norm.parameters():
            nn.init.normal_(parameter)
    if parts.gamma is not None:
        nn.init.uniform_(parts.gamma, 0.5, 1.5)
    for name, buffer in trial.named_buffers():
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 2)
        elif name.endswith("running_mean"):
            buffer.normal_()


@torch.no_grad()
def _observe(
    trial: nn.Module, parts: Parts, sizes: Iterable[PoolSize], space: tuple[int, ...]
) -> Seen:
    x = _random_map(parts.channels, space)
    given: list[Tensor] = []
    if parts.out is not None:
        handle = parts.out.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
        _run(trial, x)
        handle.remove()
    else:
        y = _run(trial, x) - x
        given.append(y if parts.gamma is None else y / parts.gamma.view(-1, *[1] * parts.dims))
    if len(given) != 1 or given[0].shape != (2, parts.g.out_channels, *space):
        raise ConversionError("does not call its output convolution once with a map of y")
    phi, g = parts.phi(x), parts.g(x)
    keys: dict[tuple[str | None, PoolSize], tuple[Tensor, Tensor]] = {(None, USUAL_POOL): (phi, g)}
    for size in sizes:
        kernel = pool_kernel("after", size, parts.dims)
        pooled = pool(x, kernel)
        keys["after", size] = pool(phi, kernel), pool(g, kernel)
        keys["before", size] = parts.phi(pooled), parts.g(pooled)
    flat = {pooling: (k.flatten(2), v.flatten(2)) for pooling, (k, v) in keys.items()}
    return Seen(parts.theta(x).flatten(2), flat, given[0].flatten(2))


def _random_map(channels: int, space: tuple[int, ...]) -> Tensor:
    return torch.randn(2, channels, *space, dtype=torch.float64, device="cpu")


def _run(module: nn.Module, x: Tensor) -> Tensor:
    """The block's output for x, if it is a map like x."""
    try:
        z = module(x.clone())
    except Exception as error:  # any module, any error
        raise ConversionError(
            f"does not run on a map of shape {tuple(x.shape)} ({type(error).__name__}: {error})"
        ) from error
    if not isinstance(z, Tensor):
        raise ConversionError(f"returns a {type(z).__name__}, where ours returns one tensor")
    if z.shape != x.shape:
        raise ConversionError(f"returns the shape {tuple(z.shape)} for {tuple(x.shape)}")
    if not z.isfinite().all():
        raise ConversionError("gives values that are not finite")
    return z


@torch.no_grad()
def _refuse_more_axes(trial: nn.Module, parts: Parts, space: tuple[int, ...]) -> None:
    x = _random_map(parts.channels, (*space, 2))
    try:
        trial(x)
    except Exception:  # as it should be: the convolutions do not take another axis
        return
    raise ConversionError(
        f"flattens maps for convolutions over {parts.dims} axes, so it cannot be seen which maps "
        "it is used for"
    )


def _difference(
    theirs: nn.Module,
    names: Names,
    function: Function,
    spaces: Iterable[tuple[int, ...]],
    large: tuple[int, ...] | None = None,
) -> float:
    """The largest relative difference from ours over both modes and these sizes; may raise.

    The large map is tried in evaluation only.
    """
    twin = copy.deepcopy(theirs)
    ours = assemble(parts_of(twin, names), function.options(function.attention), function.factor)
    largest = 0.0
    runs = list(product((False, True), spaces))
    for training, space in runs if large is None else [*runs, (False, large)]:
        x = _random_map(ours.channels, space).requires_grad_()
        upstream = torch.randn_like(x)
        found = [_branch(block.train(training), x, upstream) for block in (ours, theirs)]
        errors = [relative(a, b, floor=1e-9) for a, b in zip(*found, strict=True)]
        if not max(errors) <= TOLERANCE:
            raise ConversionError(
                _other_function(theirs, training, large if space == large else None)
            )
        largest = max(largest, *errors)
    return largest


def _branch(block: nn.Module, x: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor]:
    """The branch z - x, and what it adds to the gradient for x."""
    with torch.enable_grad():
        z = _run(block, x)
    if not z.requires_grad:
        raise ConversionError("passes no gradient to its input")
    (gradient,) = torch.autograd.grad(z, x, upstream)
    return (z - x).detach(), gradient - upstream


def _unknown_function(module: nn.Module) -> str:
    """Why no option of ours fits, with what can be read off the block."""
    pools = [m for m in module.modules() if isinstance(m, (*_MAX_POOL, *_AVERAGE_POOL))]
    sentence = (
        "computes what no option of ours does (another pairwise function, normaliser, pooling or "
        "order of heads)"
    )
    if not pools:
        return sentence
    return (
        f"{sentence}; it pools with {pools[0]}, and key_pool is MaxPool of phi and g, or of their "
        f"input, by up to {LARGEST_POOL} pixels, with stride=kernel_size and nothing else"
    )


def _other_function(block: nn.Module, training: bool, large: tuple[int, ...] | None) -> str:
    if large is not None:
        size = "x".join(map(str, large))
        return f"does something else on a map of {size} pixels than on small ones"
    if not training:
        return "has an attention of ours but adds it to x in another way than x + norm(out(y))"
    drops = [m for m in block.modules() if isinstance(m, _DropoutNd) and m.p > 0]
    what = f"it has {drops[0]}, which ours lacks" if drops else "has it a dropout?"
    return f"computes another function in training than in evaluation ({what})"
