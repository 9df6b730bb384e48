"""The block and its attention as functions, for modules of your own."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from scalednl.blocks.checks import AXES, check_input, check_keys_and_masks
from scalednl.blocks.folding import KeyMaps, KeyMask, Pointwise
from scalednl.blocks.forward import Parts, block_state, choice_of, forward, pool_kernel
from scalednl.ops.attention import attention_map, check_factors, nonlocal_attention
from scalednl.ops.layout import Maps, autocasts
from scalednl.ops.masks import Mask
from scalednl.options import (
    CONVOLUTIONS,
    MEMORIES,
    Attention,
    Center,
    KeyPool,
    Memory,
    Order,
    PoolSize,
    View,
    check_attention_options,
    check_center,
    check_key_pool,
    check_name,
    check_order,
    check_reference,
    orders_of,
)

__all__ = ["attention_map", "nonlocal_attention", "nonlocal_block"]


def nonlocal_block(
    x: Maps,
    theta_w: Tensor,
    phi_w: Tensor,
    g_w: Tensor,
    out_w: Tensor,
    *,
    biases: Mapping[str, Tensor] | None = None,
    norm: Callable[[Tensor], Tensor] | None = None,
    heads: int = 1,
    attention: Attention = "scaled",
    view: View = "base",
    order: Order = "auto",
    scale: bool = True,
    softmax_scale: float | Tensor | None = None,
    key_pool: KeyPool | None = None,
    key_pool_size: PoolSize = 2,
    memory: Memory = "auto",
    center: Center | None = None,
    reference_pixels: float | Tensor | None = None,
    mask: Mask | None = None,
    keys: KeyMaps | None = None,
    key_mask: KeyMask | None = None,
) -> Maps:
    """z = x + norm(out(y)), y_i = sum_j A_ij g(x_j): the block with its weights as arguments.

    It computes in the order that `scalednl.NonLocal2d` would choose, and gives the same numbers.

    Args:
        x: (batch, C, *space) with 1 to 3 axes of space.
        theta_w: the matrix (E, C) of theta, or the weight (E, C, 1, ...) of its convolution.
        phi_w: that of phi, in the same shape.
        g_w: that of g, in the same shape.
        out_w: that of out: (C, E) or (C, E, 1, ...).
        biases: vectors by name: "theta", "phi" and "g" of E numbers, "out" of C.
        norm: a function of u = out(y). Batch norm given as a module, such as nn.BatchNorm2d, folds
            into the product where that is cheaper.
        heads: as in the block, like all options that follow.
        attention: "scaled", "softmax", "mean", or one of `scalednl.register_attention`.
        view: "base", "magnitude" or "direction".
        order: "auto", or an order by name.
        scale: False drops 1/sqrt(N) from "scaled".
        softmax_scale: a number, or a tensor with one number per head; None is 1/sqrt(E / heads).
        key_pool: None, "before" or "after".
        key_pool_size: a number, or one per axis of the map.
        memory: "auto" or "lean".
        center: None, "keys" or "keys+mean".
        reference_pixels: a number of keys, or None.
        mask: (batch, *space), True at pixels that exist.
        keys: another map that x attends to, of any size.
        key_mask: the mask of `keys`.
    """
    weights = (theta_w, phi_w, g_w, out_w)
    embed, channels = _widths(weights)
    dims = x.dim() - 2
    check_input("nonlocal_block", x, channels, dims if dims in AXES else 2, theta_w.dtype)
    if any(weight.dtype != theta_w.dtype for weight in weights) and not autocasts(x):
        dtypes = ", ".join(str(weight.dtype) for weight in weights)
        raise ValueError(f"theta_w, phi_w, g_w and out_w must have one dtype, but have {dtypes}")
    check_attention_options(embed, heads, attention, view, scale)
    check_name("memory", memory, MEMORIES)
    kernel = pool_kernel(key_pool, check_key_pool(key_pool, key_pool_size), dims)
    check_order(order, orders_of(attention, view, key_pool=key_pool))
    check_center(center, attention)
    check_reference(reference_pixels, attention, scale)
    check_factors(heads, softmax_scale, reference_pixels)
    check_keys_and_masks(
        *("nonlocal_block", x, keys, mask, key_mask),
        channels=channels,
        key_pool=key_pool,
        norm=norm,
    )
    parts = _parts(weights, {} if biases is None else biases, norm, dims)
    tensors = (x, keys, *weights, *(part.bias for part in parts.convolutions()))
    state = block_state(
        parts,
        (channels, embed),
        *(heads, attention, view, key_pool),
        kernel=kernel,
        training=torch.is_grad_enabled()
        and any(isinstance(t, Tensor) and t.requires_grad for t in tensors),
        memory=memory,
        center=center,
        masked=mask is not None,
        other_keys=keys is not None,
    )
    return forward(
        x,
        parts,
        choice_of(state, order, x.shape, None if keys is None else keys.shape),
        mask=mask,
        keys=keys,
        key_mask=key_mask,
        center=center,
        reference_pixels=reference_pixels,
        key_pool=key_pool,
        kernel=kernel,
        memory=memory,
        heads=heads,
        attention=attention,
        view=view,
        scale=scale,
        softmax_scale=softmax_scale,
    )


def _widths(weights: tuple[Tensor, ...]) -> tuple[int, int]:
    """E and C, from weights that fit each other."""
    embed, channels = (*weights[0].shape, 0, 0)[:2]
    wanted = ((embed, channels),) * 3 + ((channels, embed),)
    for weight, widths in zip(weights, wanted, strict=True):
        if weight.shape[:2] != widths or weight.numel() != embed * channels:
            names = (
                f"{name}_w {tuple(w.shape)}" for name, w in zip(CONVOLUTIONS, weights, strict=True)
            )
            raise ValueError(
                "theta_w, phi_w and g_w are (embed, channels), and out_w is (channels, embed), "
                f"each with further axes of 1 at most, but got {', '.join(names)}"
            )
    return embed, channels


def _parts(
    weights: tuple[Tensor, ...],
    biases: Mapping[str, Tensor],
    norm: Callable[[Tensor], Tensor] | None,
    dims: int,
) -> Parts:
    for name in biases:
        check_name("biases", name, CONVOLUTIONS)
    convs = []
    for name, weight in zip(CONVOLUTIONS, weights, strict=True):
        bias = biases.get(name)
        if bias is not None and bias.shape != weight.shape[:1]:
            raise ValueError(
                f"the bias of {name} must be {tuple(weight.shape[:1])}, as {name}_w is "
                f"{tuple(weight.shape)}, but got {tuple(bias.shape)}"
            )
        convs.append(Pointwise(weight.reshape(*weight.shape[:2], *[1] * dims), bias))
    theta, phi, g, out = convs
    return Parts(theta, phi, g, out, norm)
