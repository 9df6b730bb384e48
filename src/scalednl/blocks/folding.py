"""Using a module's weights instead of calling it, where that computes the same.

Plain 1x1 convolutions are one matrix at every pixel, and batch norm is a gain and a constant per
channel. So out, batch norm and the residual join the product before them, in as few passes over
the map as possible. A module that was replaced, patched or hooked is called. Hooks on all modules
at once do not count: counters of operations set those, and must not change what they count.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, TypeGuard

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.module import _has_any_global_hook

from scalednl.blocks.masked_norm import Norm, batch_statistics, gathered_norm, uses_batch
from scalednl.ops.gram import gram_mix, gram_mix_normalised, gram_mix_where
from scalednl.ops.gram.forward import (
    Vector,
)
from scalednl.ops.gram.mixing import Projections
from scalednl.ops.layout import HALVES, Maps, accumulation_dtype, pixel_rows, rows_to_maps
from scalednl.ops.masks import Mask, shown
from scalednl.ops.rank_one import rank_one_branch
from scalednl.options import Memory

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
MODULES = dict(enumerate(zip(CONVOLUTIONS, NORMS, strict=True), 1))
"""The convolution and the batch norm of each number of dimensions"""
_CONVOLVE = (F.conv1d, F.conv2d, F.conv3d)

KeyMaps = Float[Tensor, "batch channels *keyspace"]
KeyMask = Bool[Tensor, "batch *keyspace"]


class Pointwise(NamedTuple):
    """A 1x1 convolution that is no module: its weight, with as many ones as axes, and its bias."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """The convolution of x."""
        return _CONVOLVE[x.dim() - 3](x, self.weight, self.bias)


Part = nn.Module | Pointwise


def is_plain(module: object, kinds: tuple[type[nn.Module], ...]) -> bool:
    """Whether a module does what its class says and nothing else: no subclass, patch or hook."""
    if not (isinstance(module, nn.Module) and type(module) in kinds):
        return False
    return "forward" not in module.__dict__ and not (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def is_pointwise(module: Part, widths: tuple[int, int]) -> bool:
    """Whether a module is a plain 1x1 convolution, one matrix at every pixel.

    `widths` are its input and output channels.
    """
    if isinstance(module, Pointwise):
        return True
    if not is_plain(module, CONVOLUTIONS):
        return False
    assert isinstance(module, _ConvNd)
    return (
        (module.in_channels, module.out_channels, module.groups) == (*widths, 1)
        and module.kernel_size == module.stride == (1,) * len(module.stride)
        and module.padding in ((0,), (0, 0), (0, 0, 0), "valid", "same")
    )


def folds_in_training(norm: Norm) -> TypeGuard[_BatchNorm]:
    """Whether `norm` is batch norm of this batch alone; a SyncBatchNorm also sees other ranks."""
    return is_plain(norm, NORMS)


def folds_in_evaluation(norm: Norm, training: bool | None = None) -> TypeGuard[_BatchNorm]:
    """Whether `norm` would apply its running statistics: a fixed gain and constant.

    `training` None is the mode it is in now.
    """
    if not is_plain(norm, (*NORMS, nn.SyncBatchNorm)):
        return False
    assert isinstance(norm, _BatchNorm)
    return norm.running_mean is not None and not (norm.training if training is None else training)


def add_projected(
    x: Maps,
    y: Float[Tensor, "batch embed *space"],
    out: Part,
    norm: Norm,
    mask: Mask | None = None,
) -> Maps:
    """x + norm(out(y)), with a norm in evaluation folded into out's weights."""
    if folds_in_evaluation(norm) and is_pointwise(out, (y.shape[1], x.shape[1])):
        assert isinstance(out, (_ConvNd, Pointwise))
        weight, constant = (v.to(out.weight.dtype) for v in with_norm(out.weight, out.bias, norm))
        u = _CONVOLVE[x.dim() - 3](y, weight, constant)
        return x + u if mask is None else _add_branch(x, u, None, mask)
    return _add_branch(x, out(y), norm, mask)


def add_rank_one(
    x: Maps,
    queries: Maps,
    keys: KeyMaps,
    theta: Part,
    phi: Part,
    w: Projections,
    out_bias: Vector | None,
    norm: Norm,
    *,
    mask: Mask | None = None,
    key_mask: KeyMask | None = None,
) -> Maps:
    """x + norm(u + out_bias), u by the rank-one order from theta(queries) and phi(keys)."""
    if folds_in_evaluation(norm):
        weight, out_bias = (v.to(w.out.dtype) for v in with_norm(w.out, out_bias, norm))
        w, norm = w.with_out(weight), None
    rows = (pixel_rows(theta(queries)), pixel_rows(phi(keys)), pixel_rows(keys))
    u = rank_one_branch(*rows, w, None if key_mask is None else key_mask.flatten(1))
    u = rows_to_maps(u, x.shape[2:])
    if out_bias is not None:
        u = u + out_bias.view(-1, *[1] * (x.dim() - 2))
    return _add_branch(x, u, norm, mask)


def add_gram(
    x: Maps,
    keys: KeyMaps | None,
    w: Projections,
    out_bias: Vector | None,
    norm: Norm,
    *,
    mask: Mask | None = None,
    key_mask: KeyMask | None = None,
    fold: bool,
    memory: Memory,
) -> Maps:
    """x + norm(P x + out_bias), P by the gram order; `fold`: norm folded in training too.

    `keys` None are the pixels of x where `mask`, which then is the `key_mask`, is True; others have
    zeros outside `key_mask`.
    """
    if folds_in_evaluation(norm):
        weight, out_bias = with_norm(w.out, out_bias, norm)
        w, norm = w.with_out(weight), None
    if norm is None and mask is None:
        return gram_mix(x, w, out_bias, keys=keys, key_mask=key_mask, residual=True, memory=memory)
    if norm is None and mask is not None and not torch.is_grad_enabled() and x.dtype not in HALVES:
        return gram_mix_where(x, mask, w, out_bias, keys=keys, key_mask=key_mask)
    # Batch norm learns nothing from an empty batch, and an out bias is lost in its mean.
    joins = fold and folds_in_training(norm) and keys is None and out_bias is None
    if not joins or x.shape[0] == 0:
        # u may leave float16 before the norm brings it back, if the norm takes float32.
        of_norm = getattr(norm, "weight", None)
        like = of_norm if isinstance(of_norm, Tensor) else w.out
        wide = x.float() if x.dtype == torch.float16 and like.dtype == torch.float32 else x
        u = gram_mix(
            shown(wide, mask),
            *(w, out_bias),
            keys=keys,
            key_mask=key_mask,
            residual=False,
            memory=memory,
        )
        return _add_branch(x, u, norm, mask)
    assert isinstance(norm, _BatchNorm)
    count = x.numel() // x.shape[1] if mask is None else mask.sum()
    check_count(x, count)
    z, mean, var = gram_mix_normalised(
        x, w, norm.weight, norm.bias, mask=mask, eps=norm.eps, memory=memory
    )
    update_running_statistics(norm, mean, var, count)
    return z


def _add_branch(x: Maps, u: Maps, norm: Norm, mask: Mask | None) -> Maps:
    if norm is not None:
        u = norm(u) if mask is None else masked_norm(u, norm, mask)
    if mask is not None:
        # u was made from zeros where no pixel exists, so that nothing there is NaN.
        here = mask[:, None].to(u.dtype)
        if u.dtype == x.dtype:
            return torch.addcmul(x, u, here)
        u = u * here
    if mask is None and u.dtype == x.dtype and _is_ours(norm) and u.stride() == x.stride():
        return u.add_(x)
    # Some norms, and the sum with a bias, give float32 for a half-precision u.
    return (x + u).to(x.dtype)


def _is_ours(norm: Norm) -> bool:
    """Whether nobody else sees what `norm` returns, which its own backward does not need.

    A compiler makes one pass of both anyway.
    """
    if torch.compiler.is_compiling() or _has_any_global_hook():
        return False
    return is_plain(norm, NORMS)


def masked_norm(u: Maps, norm: Callable[[Tensor], Tensor], mask: Mask) -> Maps:
    """norm(u) with statistics over the pixels of the mask; elsewhere it means nothing."""
    if not uses_batch(norm):
        return norm(u)
    assert isinstance(norm, _BatchNorm)
    if not folds_in_training(norm):
        return gathered_norm(u, norm, mask)
    mean, var, centred = batch_statistics(u, mask)
    update_running_statistics(norm, mean, var, mask.sum())
    axes = [1] * (u.dim() - 2)
    gain = (var + norm.eps).rsqrt()
    if norm.weight is not None:
        gain = gain * norm.weight
    v = centred * gain.view(-1, *axes)
    return v if norm.bias is None else v + norm.bias.view(-1, *axes)


def with_norm(weight: Tensor, bias: Vector | None, norm: _BatchNorm) -> tuple[Tensor, Vector]:
    """The weight and bias of out with a norm in evaluation folded in.

    norm(u) = gain u + constant, gain = gamma / sqrt(var + eps), constant = beta - gain mean.
    Both are at least float32: in float16 a variance above 65,504 is infinite and the gain 0.
    """
    assert norm.running_mean is not None
    assert norm.running_var is not None
    dtype = accumulation_dtype(weight.dtype)
    gain = (norm.running_var.to(dtype) + norm.eps).rsqrt()
    if norm.weight is not None:
        gain = norm.weight.to(dtype) * gain
    constant = -gain * norm.running_mean.to(dtype)
    if norm.bias is not None:
        constant = constant + norm.bias.to(dtype)
    if bias is not None:
        constant = constant + gain * bias.to(dtype)
    return weight.to(dtype) * gain.view(-1, *[1] * (weight.dim() - 1)), constant


def check_count(x: Tensor, count: int | Tensor) -> None:
    """Raise where batch norm has no variance to learn from; a mask's pixels are not looked at."""
    if isinstance(count, int) and count == 1:
        raise ValueError(
            "batch norm in training needs more than one value per channel, but got "
            f"shape {tuple(x.shape)}: use a larger batch or map, or call eval()"
        )


@torch.no_grad()
def update_running_statistics(
    norm: _BatchNorm, mean: Vector, var: Vector, count: int | Tensor
) -> None:
    """What `norm` does to its buffers in training, given the batch's mean and biased variance.

    `count` is a tensor where a mask decides it; a batch without pixels changes nothing.
    """
    if not (norm.training and norm.track_running_stats):
        return
    assert norm.running_mean is not None
    assert norm.running_var is not None
    some: int | Tensor = 1
    if isinstance(count, Tensor):
        # Where there is no pixel, the new value is the old one and its weight is 0.
        some, count = (count > 0).to(torch.int64), count.clamp_min(2).to(var.dtype)
    var = var * (count / (count - 1))
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(some)
    for running, new in ((norm.running_mean, mean), (norm.running_var, var)):
        with _unseen_by_autograd(running):
            if norm.momentum is None and norm.num_batches_tracked is not None:
                seen = norm.num_batches_tracked.clamp_min(1)
                running.add_((new.to(running.dtype) - running) * some / seen)
            elif norm.momentum is not None and isinstance(some, Tensor):
                running.lerp_(new.to(running.dtype), norm.momentum * some.to(running.dtype))
            elif norm.momentum is not None:
                running.mul_(1 - norm.momentum).add_(new.to(running.dtype), alpha=norm.momentum)


def _unseen_by_autograd(buffer: Vector) -> AbstractContextManager[object]:
    """Hide a change of the buffer, as torch's own batch norm does.

    The same norm may be in one graph twice, once folded and once not folded, and the graph that
    holds the buffer may still go backward.
    """
    if torch.compiler.is_compiling():
        return nullcontext()
    return _unsafe_preserve_version_counter(buffer)
