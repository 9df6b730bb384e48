"""The block on a tile of an image whose other pixels are known by their moments alone."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from scalednl.blocks.folding import NORMS, check_count, is_plain, update_running_statistics
from scalednl.blocks.forward import Parts
from scalednl.blocks.masked_norm import Norm
from scalednl.ops.costs import BlockState
from scalednl.ops.gram.forward import apply_matrix, branch_statistics, normalised, range_scale
from scalednl.ops.gram.mixing import Mixing, mixing_matrix
from scalednl.ops.layout import Maps, full_precision, pixel_rows, rows_to_maps
from scalednl.ops.masks import Mask, shown
from scalednl.ops.moments import Moments


def add_moments(
    x: Maps,
    moments: Moments,
    parts: Parts,
    options: dict[str, Any],
    state: BlockState,
    *,
    mask: Mask | None = None,
    update_norm: bool,
) -> Maps:
    """x + norm(P x + bias of out), where P and the norm's batch are what `moments` has seen.

    `options` are those of the attention, `state` is the block's.
    """
    norm = parts.norm
    reason = state.orders()["gram"]
    if state.key_pool is not None:
        reason = "key_pool would have to pool across the borders of tiles"
    if reason := reason or _reason_against(norm, moments.reduced):
        raise ValueError(f"apply_moments cannot be used: {reason}")
    assert norm is None or isinstance(norm, _BatchNorm)
    keys = moments.key_moments()
    if keys.scatter.shape[:2] != (x.shape[1], x.shape[0]):
        raise ValueError(f"x of shape {tuple(x.shape)} does not fit {moments}")
    dtype = keys.scatter.dtype
    with full_precision(x):
        of_batch = norm is not None and (norm.training or norm.running_mean is None)
        w = parts.projections(options, keys.pixels).to(dtype)
        scale = range_scale(keys, w) if of_batch else w.out.new_ones(())
        mixing = mixing_matrix(keys, w.divided(scale))
        if isinstance(out_bias := parts.out.bias, Tensor):
            bias = (out_bias.to(dtype) / scale).expand(x.shape[0], -1)
            shift = bias if mixing.shift is None else mixing.shift + bias
            mixing = Mixing(mixing.matrix, mixing.half, mixing.core, mixing.right, shift)
        matrix, constant = mixing.matrix, mixing.shift
        if norm is not None:
            if of_batch:
                count: int | Tensor = x.shape[0] * keys.pixels
                if isinstance(keys.pixels, Tensor):
                    count = keys.pixels.sum()
                check_count(x, count)
                mean, var, *_ = branch_statistics(mixing, keys)
                if update_norm:
                    statistics = mean * scale, var * scale.square()
                    update_running_statistics(norm, *statistics, count)
            else:
                assert norm.running_mean is not None
                assert norm.running_var is not None
                mean, var = norm.running_mean.to(dtype), norm.running_var.to(dtype)
            eps = norm.eps / scale.square()
            matrix, constant = normalised(mixing, mean, var, norm.weight, norm.bias, eps)
        # A gradient of 0 times NaN where no pixel exists would reach the weights.
        rows = pixel_rows(shown(x, mask))
        z = apply_matrix(rows, matrix, constant, residual=True)
    z = rows_to_maps(z, x.shape[2:])
    return z if mask is None else torch.where(mask[:, None], z, x)


def _reason_against(norm: Norm, reduced: bool) -> str:
    """Why `norm` cannot be computed from moments, or ""; `reduced`: they are of all ranks."""
    if norm is not None and not is_plain(norm, (*NORMS, nn.SyncBatchNorm)):
        return f"it needs plain batch norm or none, not {norm}"
    if isinstance(norm, nn.SyncBatchNorm) and norm.training and not reduced:
        return "SyncBatchNorm in training needs the moments of all ranks: all_reduce() them"
    return ""
