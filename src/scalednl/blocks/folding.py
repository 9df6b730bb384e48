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
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from scalednl.ops.gram import gram_mix, gram_mix_normalised
from scalednl.ops.gram.forward import (
    Vector,
    apply_matrix,
    branch_statistics,
    normalised,
    range_scale,
)
from scalednl.ops.gram.mixing import KeyMoments, Projections, mixing_matrix
from scalednl.ops.layout import Maps, full_precision, pixel_rows, rows_to_maps
from scalednl.ops.rank_one import rank_one_branch
from scalednl.options import Memory

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
MODULES = dict(enumerate(zip(CONVOLUTIONS, NORMS, strict=True), 1))
"""The convolution and the batch norm of each number of dimensions"""
_CONVOLVE = (F.conv1d, F.conv2d, F.conv3d)

KeyMaps = Float[Tensor, "batch channels *keyspace"]
Norm = Callable[[Tensor], Tensor] | None


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


def add_projected(x: Maps, y: Float[Tensor, "batch embed *space"], out: Part, norm: Norm) -> Maps:
    """x + norm(out(y)), with a norm in evaluation folded into out's weights."""
    if folds_in_evaluation(norm) and is_pointwise(out, (y.shape[1], x.shape[1])):
        assert isinstance(out, (_ConvNd, Pointwise))
        weight, constant = _with_norm(out.weight, out.bias, norm)
        return x + _CONVOLVE[x.dim() - 3](y, weight, constant)
    return _add_branch(x, out(y), norm)


def add_rank_one(
    x: Maps,
    keys: KeyMaps,
    theta: Part,
    phi: Part,
    w: Projections,
    out_bias: Vector | None,
    norm: Norm,
) -> Maps:
    """x + norm(u + out_bias), u by the rank-one order from theta(x) and phi(keys)."""
    if folds_in_evaluation(norm):
        weight, out_bias = _with_norm(w.out, out_bias, norm)
        w, norm = w._replace(out=weight), None
    u = rank_one_branch(pixel_rows(theta(x)), pixel_rows(phi(keys)), pixel_rows(keys), w)
    u = rows_to_maps(u, x.shape[2:])
    if out_bias is not None:
        u = u + out_bias.view(-1, *[1] * (x.dim() - 2))
    return _add_branch(x, u, norm)


def add_gram(
    x: Maps,
    keys: KeyMaps | None,
    w: Projections,
    out_bias: Vector | None,
    norm: Norm,
    *,
    fold: bool,
    memory: Memory,
) -> Maps:
    """x + norm(P x + out_bias), P by the gram order; `fold`: norm folded in training too.

    `keys` are the pooled x; None is x itself.
    """
    if folds_in_evaluation(norm):
        weight, out_bias = _with_norm(w.out, out_bias, norm)
        w, norm = w._replace(out=weight), None
    if norm is None:
        return gram_mix(x, w, out_bias, keys=keys, residual=True, memory=memory)
    # Batch norm learns nothing from an empty batch, and an out bias is lost in its mean.
    if not (fold and folds_in_training(norm)) or out_bias is not None or x.shape[0] == 0:
        # u may leave float16 before the norm brings it back.
        wide = x.float() if x.dtype == torch.float16 and w.out.dtype == torch.float32 else x
        u = gram_mix(wide, w, out_bias, keys=keys, residual=False, memory=memory)
        return _add_branch(x, u, norm)
    count = x.numel() // x.shape[1]
    _check_count(x, count)
    z, mean, var = gram_mix_normalised(x, w, norm.weight, norm.bias, eps=norm.eps, memory=memory)
    _update_running_statistics(norm, mean, var, count)
    return z


def reason_against_moments(norm: Norm, reduced: bool) -> str:
    """Why `add_moments` cannot compute `norm`, or ""; `reduced`: the moments are of all ranks."""
    if norm is not None and not is_plain(norm, (*NORMS, nn.SyncBatchNorm)):
        return f"it needs plain batch norm or none, not {norm}"
    if isinstance(norm, nn.SyncBatchNorm) and norm.training and not reduced:
        return "SyncBatchNorm in training needs the moments of all ranks: all_reduce() them"
    return ""


def add_moments(
    x: Maps,
    keys: KeyMoments,
    w: Projections,
    out_bias: Vector | None,
    norm: _BatchNorm | None,
    *,
    update_norm: bool,
) -> Maps:
    """x + norm(P x + out_bias), where P and the norm's batch are what `keys` has seen."""
    dtype = keys.scatter.dtype
    with full_precision(x):
        of_batch = norm is not None and (norm.training or norm.running_mean is None)
        w = w.to(dtype)
        scale = range_scale(keys, w) if of_batch else w.out.new_ones(())
        mixing = mixing_matrix(keys, w.divided(scale))
        if out_bias is not None:
            bias = (out_bias.to(dtype) / scale).expand(x.shape[0], -1)
            mixing = mixing._replace(shift=bias if mixing.shift is None else mixing.shift + bias)
        matrix, constant = mixing.matrix, mixing.shift
        if norm is not None:
            if of_batch:
                count = x.shape[0] * keys.pixels
                _check_count(x, count)
                mean, var = branch_statistics(mixing, keys)[:2]
                if update_norm:
                    statistics = mean * scale, var * scale.square()
                    _update_running_statistics(norm, *statistics, count)
            else:
                assert norm.running_mean is not None
                assert norm.running_var is not None
                mean, var = norm.running_mean.to(dtype), norm.running_var.to(dtype)
            eps = norm.eps / scale.square()
            matrix, constant = normalised(mixing, mean, var, norm.weight, norm.bias, eps)
        z = apply_matrix(pixel_rows(x), matrix, constant, residual=True)
    return rows_to_maps(z, x.shape[2:])


def _add_branch(x: Maps, u: Maps, norm: Norm) -> Maps:
    # Some norms, and the sum with a bias, give float32 for a half-precision u.
    return (x + (u if norm is None else norm(u))).to(x.dtype)


def _with_norm(weight: Tensor, bias: Vector | None, norm: _BatchNorm) -> tuple[Tensor, Vector]:
    """The weight and bias of out with a norm in evaluation folded in.

    norm(u) = gain u + constant, gain = gamma / sqrt(var + eps), constant = beta - gain mean.
    """
    assert norm.running_mean is not None
    assert norm.running_var is not None
    dtype = weight.dtype
    gain = (norm.running_var.to(dtype) + norm.eps).rsqrt()
    if norm.weight is not None:
        gain = norm.weight.to(dtype) * gain
    constant = -gain * norm.running_mean.to(dtype)
    if norm.bias is not None:
        constant = constant + norm.bias.to(dtype)
    if bias is not None:
        constant = constant + gain * bias
    return weight * gain.view(-1, *[1] * (weight.dim() - 1)), constant


def _check_count(x: Tensor, count: int) -> None:
    """Raise where batch norm has no variance to learn from."""
    if count == 1:
        raise ValueError(
            "batch norm in training needs more than one value per channel, but got "
            f"shape {tuple(x.shape)}: use a larger batch or map, or call eval()"
        )


@torch.no_grad()
def _update_running_statistics(norm: _BatchNorm, mean: Vector, var: Vector, count: int) -> None:
    """What `norm` does to its buffers in training, given the batch's mean and biased variance."""
    if not (norm.training and norm.track_running_stats):
        return
    assert norm.running_mean is not None
    assert norm.running_var is not None
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    unbiased = var * (count / (count - 1))
    for running, new in ((norm.running_mean, mean), (norm.running_var, unbiased)):
        with _unseen_by_autograd(running):
            if norm.momentum is not None:
                running.mul_(1 - norm.momentum).add_(new.to(running.dtype), alpha=norm.momentum)
            elif norm.num_batches_tracked is not None:
                running.add_((new.to(running.dtype) - running) / norm.num_batches_tracked)


def _unseen_by_autograd(buffer: Vector) -> AbstractContextManager[object]:
    """Hide a change of the buffer, as torch's own batch norm does.

    The same norm may be in one graph twice, once folded and once not folded, and the graph that
    holds the buffer may still go backward.
    """
    if torch.compiler.is_compiling():
        return nullcontext()
    return _unsafe_preserve_version_counter(buffer)
