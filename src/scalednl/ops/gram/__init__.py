"""The gram order: the block as one C x C matrix per image, found from second moments of x.

    u = P x,  P = sum_h Wo_h core_h Wt_h,  core_h = s Wg_h (x x^T) Wp_h^T

theta, phi, g and y never exist. Two forms:

- `gram_mix`: u, or x + u + constant with the residual as the accumulator of the last product.
  Batch norm in evaluation enters as a rescaled Wo and the constant.
- `gram_mix_normalised`: training-mode batch norm folded in. The mean and variance of u follow from
  P and the moments of x, so z = x + (a P) x + c is still one product.

Keys may be another map, and with a mask only some pixels exist: see `ops.masks`. Their backward is
written by hand (`ops.gram.backward`). Plain autograd runs the same forward where that cannot be
used: biases, center="keys+mean", a factor with a gradient, forward-mode derivatives, function
transforms, export (where a function with its own backward would stay in the graph), and compilation
with autocast.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import forward_ad

from scalednl.ops.gram.backward import Gradients, mix_backward, mix_normalised_backward
from scalednl.ops.gram.forward import Vector, mix_forward, mix_normalised_forward, mix_where
from scalednl.ops.gram.mixing import Projections
from scalednl.ops.layout import Maps, Rows, autocasts, full_precision, pixel_rows, rows_to_maps
from scalednl.ops.masks import pixel_column, shown_rows
from scalednl.options import Center, Memory


def gram_mix(
    x: Maps,
    w: Projections,
    constant: Vector | None = None,
    *,
    keys: Float[Tensor, "batch channels *keyspace"] | None = None,
    key_mask: Bool[Tensor, "batch *keyspace"] | None = None,
    residual: bool,
    memory: Memory = "auto",
) -> Maps:
    """u = P x + constant, plus x with `residual`; `keys` None is x itself.

    Keys outside `key_mask` must be 0.
    """
    rows = pixel_rows(x)
    key_rows = None if keys is None else pixel_rows(keys)
    exist = None if key_mask is None else pixel_column(key_mask)
    by_hand = _by_hand(rows, w, key_rows, constant)
    with full_precision(x):
        if by_hand:
            mixed = _mix(
                *(rows, key_rows, *w.weights(), constant, exist),
                *(w.factor, w.heads, w.center, residual, memory == "lean"),
            )
        else:
            key_rows = rows if key_rows is None else key_rows
            mixed = mix_forward(rows, key_rows, w, constant, exist, residual=residual).rows
    return rows_to_maps(mixed, x.shape[2:])


def gram_mix_where(
    x: Maps,
    mask: Bool[Tensor, "batch *space"],
    w: Projections,
    constant: Vector | None = None,
    *,
    keys: Float[Tensor, "batch channels *keyspace"] | None = None,
    key_mask: Bool[Tensor, "batch *keyspace"] | None = None,
) -> Maps:
    """x + P x + constant where `mask` is True, x elsewhere, for evaluation: one map less is made.

    `keys` None are the pixels of x in the mask; others must be 0 outside `key_mask`.
    """
    rows, exist = pixel_rows(x), pixel_column(mask)
    shown = shown_rows(rows, exist)
    key_rows = shown if keys is None else pixel_rows(keys)
    key_exist = exist if keys is None else None if key_mask is None else pixel_column(key_mask)
    with full_precision(x):
        mixed = mix_where(rows, shown, exist, key_rows, w, constant, key_exist)
    return rows_to_maps(mixed, x.shape[2:])


def gram_mix_normalised(
    x: Maps,
    w: Projections,
    gamma: Vector | None,
    beta: Vector | None,
    *,
    mask: Bool[Tensor, "batch *space"] | None = None,
    eps: float,
    memory: Memory = "auto",
) -> tuple[Maps, Vector, Vector]:
    """z = x + BN(P x) in training mode, with the batch's mean and biased variance of P x.

    Pixels outside `mask` are no keys, are not in the statistics, and stay x.
    """
    rows = pixel_rows(x)
    exist = None if mask is None else pixel_column(mask)
    by_hand = _by_hand(rows, w, gamma, beta)
    with full_precision(x):
        if by_hand:
            z, mean, var = _mix_normalised(
                *(rows, *w.weights(), gamma, beta, exist),
                *(w.factor, w.heads, w.center, eps, memory == "lean"),
            )
        else:
            found = mix_normalised_forward(rows, w, gamma, beta, exist, eps=eps)
            (z, *_), statistics, scale, _ = found
            mean, var = statistics.mean * scale, statistics.var * scale.square()
    return rows_to_maps(z, x.shape[2:]), mean, var


def _by_hand(x: Tensor, w: Projections, *others: Tensor | None) -> bool:
    """Whether the hand-written backward computes all that is asked: first-order reverse mode.

    It has no gradient of the factor. False when compiling under autocast: torch runs a compiled
    backward under the autocast of its forward, whatever was switched off inside, and the
    hand-written backward relies on float32.
    """
    factor = w.factor if isinstance(w.factor, Tensor) else None
    if not w.is_linear() or (factor is not None and factor.requires_grad):
        return False
    if torch.compiler.is_exporting() or torch._C._are_functorch_transforms_active():
        return False
    if torch.compiler.is_compiling() and autocasts(x):
        return False
    inputs = (x, *w.weights(), factor, *others)
    return all(t is None or forward_ad.unpack_dual(t).tangent is None for t in inputs)


class _GramMix(torch.autograd.Function):
    """`mix_forward` without biases. Kept: x, the keys' moments and, unless lean, P.

    `key_rows` None: the keys are x itself. Key rows that do not `exist` are 0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: Rows,
        key_rows: Tensor | None,
        theta: Tensor,
        phi: Tensor,
        g: Tensor,
        out: Tensor,
        constant: Vector | None,
        exist: Tensor | None,
        factor: float | Tensor,
        heads: int,
        center: Center | None,
        residual: bool,
        lean: bool,
    ) -> Rows:
        w = Projections(theta, phi, g, out, heads=heads, factor=factor, center=center)
        keys = rows if key_rows is None else key_rows
        mixed = mix_forward(rows, keys, w, constant, exist, residual=residual)
        matrix = None if lean else mixed.mixing.matrix
        ctx.save_for_backward(
            *(rows, key_rows, theta, phi, g, out, constant, exist),
            *(mixed.keys.mean, mixed.keys.scatter, matrix),
            factor if isinstance(factor, Tensor) else None,
        )
        ctx.factor = None if isinstance(factor, Tensor) else factor
        ctx.heads, ctx.center, ctx.residual = heads, center, residual
        return mixed.rows

    @staticmethod
    def backward(ctx: Any, grad: Rows) -> Gradients:
        return mix_backward(ctx, grad)


class _GramMixNormalised(torch.autograd.Function):
    """`mix_normalised_forward` without biases. Kept: x, its moments and, unless lean, P, Wg S, P S.

    With a mask, x minus its mean is kept too, unless lean.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: Rows,
        theta: Tensor,
        phi: Tensor,
        g: Tensor,
        out: Tensor,
        gamma: Vector | None,
        beta: Vector | None,
        exist: Tensor | None,
        factor: float | Tensor,
        heads: int,
        center: Center | None,
        eps: float,
        lean: bool,
    ) -> tuple[Rows, Vector, Vector]:
        w = Projections(theta, phi, g, out, heads=heads, factor=factor, center=center)
        mixed, (mean, var, image_mean, spread), scale, centred = mix_normalised_forward(
            rows, w, gamma, beta, exist, eps=eps
        )
        large = [mixed.mixing.matrix, mixed.mixing.half, image_mean, spread, centred]
        ctx.save_for_backward(
            *(rows, theta, phi, g, out, gamma, beta, exist),
            *(mixed.keys.mean, mixed.keys.scatter, mean, var, scale),
            *([None] * len(large) if lean else large),
            factor if isinstance(factor, Tensor) else None,
        )
        ctx.factor = None if isinstance(factor, Tensor) else factor
        ctx.heads, ctx.center, ctx.eps = heads, center, eps
        batch_mean, batch_var = mean * scale, var * scale.square()
        ctx.mark_non_differentiable(batch_mean, batch_var)
        return mixed.rows, batch_mean, batch_var

    @staticmethod
    def backward(ctx: Any, grad: Rows, *_no_gradient: Tensor) -> Gradients:
        return mix_normalised_backward(ctx, grad)


_mix: Callable[..., Rows] = _GramMix.apply
_mix_normalised: Callable[..., tuple[Rows, Vector, Vector]] = _GramMixNormalised.apply
