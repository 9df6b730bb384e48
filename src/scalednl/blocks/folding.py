"""A branch, its batch norm and the residual, put together in as few passes as can be."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from scalednl.blocks.norm import (
    evaluation_affine,
    folds_in_evaluation,
    folds_in_training,
    update_running_statistics,
)
from scalednl.blocks.plain import is_pointwise
from scalednl.ops.gram import gram_mix, gram_mix_normalised
from scalednl.ops.gram.forward import Vector, apply_matrix, branch_statistics, normalised
from scalednl.ops.gram.mixing import KeyMoments, Projections, mixing_matrix
from scalednl.ops.layout import Maps, pixel_rows, rows_to_maps
from scalednl.ops.precision import full_precision
from scalednl.options import Memory


def add_branch(x: Maps, u: Maps, norm: nn.Module | None) -> Maps:
    """x + norm(u)."""
    return x + (u if norm is None else norm(u))


def add_projected(
    x: Maps, y: Float[Tensor, "batch embed *space"], out: nn.Module, norm: nn.Module | None
) -> Maps:
    """x + norm(out(y)), with a norm in evaluation folded into out's weights."""
    if norm is not None and folds_in_evaluation(norm) and is_pointwise(out, y.shape[1], x.shape[1]):
        assert isinstance(out, _ConvNd)
        weight, constant = evaluation_projection(out.weight, out.bias, norm)
        return x + _CONVOLVE[x.dim() - 3](y, weight, constant)
    return add_branch(x, out(y), norm)


def evaluation_projection(
    weight: Tensor, bias: Vector | None, norm: _BatchNorm
) -> tuple[Tensor, Vector]:
    """The weight and bias of out with a norm in evaluation folded in."""
    gain, constant = evaluation_affine(norm, weight.dtype)
    if bias is not None:
        constant = constant + gain * bias
    return weight * gain.view(-1, *[1] * (weight.dim() - 1)), constant


def add_gram(
    x: Maps,
    w: Projections,
    out_bias: Vector | None,
    norm: nn.Module | None,
    *,
    keys: Float[Tensor, "batch channels *keyspace"] | None,
    fold: bool,
    memory: Memory,
) -> Maps:
    """x + norm(P x + out_bias), P by the gram order; `fold`: norm folded in training too."""
    if norm is None:
        return gram_mix(x, w, out_bias, keys=keys, residual=True, memory=memory)
    if folds_in_evaluation(norm):
        weight, constant = evaluation_projection(w.out, out_bias, norm)
        w = w._replace(out=weight)
        return gram_mix(x, w, constant, keys=keys, residual=True, memory=memory)
    # Batch norm learns nothing from an empty batch, and an out bias is lost in its mean.
    if not (fold and folds_in_training(norm)) or out_bias is not None or x.shape[0] == 0:
        u = gram_mix(x, w, out_bias, keys=keys, residual=False, memory=memory)
        return add_branch(x, u, norm)
    count = x.numel() // x.shape[1]
    check_batch_count(x, count)
    z, mean, var = gram_mix_normalised(x, w, norm.weight, norm.bias, eps=norm.eps, memory=memory)
    update_running_statistics(norm, mean, var, count)
    return z


def add_moments(
    x: Maps,
    keys: KeyMoments,
    w: Projections,
    out_bias: Vector | None,
    norm: _BatchNorm | None,
    *,
    update_norm: bool,
) -> Maps:
    """x + norm(P x + out_bias), P and the norm's batch being what `keys` has seen."""
    dtype = keys.scatter.dtype
    with full_precision(x):
        mixing = mixing_matrix(keys, w.to(dtype))
        if out_bias is not None:
            bias = out_bias.to(dtype).expand(x.shape[0], -1)
            mixing = mixing._replace(shift=bias if mixing.shift is None else mixing.shift + bias)
        matrix, constant = mixing.matrix, mixing.shift
        if norm is not None:
            if norm.training or norm.running_mean is None:
                count = x.shape[0] * keys.pixels
                check_batch_count(x, count)
                mean, var = branch_statistics(mixing, keys)[:2]
                if update_norm:
                    update_running_statistics(norm, mean, var, count)
            else:
                assert norm.running_var is not None
                mean, var = norm.running_mean.to(dtype), norm.running_var.to(dtype)
            matrix, constant = normalised(mixing, mean, var, norm.weight, norm.bias, norm.eps)
        z = apply_matrix(pixel_rows(x), matrix, constant, residual=True)
    return rows_to_maps(z, x.shape[2:])


def check_batch_count(x: Tensor, count: int) -> None:
    """Raise where batch norm has no variance to learn from."""
    if count == 1:
        raise ValueError(
            "batch norm in training needs more than one value a channel, but got "
            f"shape {tuple(x.shape)}: use a larger batch or map, or call eval()"
        )


_CONVOLVE = (F.conv1d, F.conv2d, F.conv3d)
