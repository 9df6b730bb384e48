"""The hand-written backward of the gram order: five products over pixels; x and little else kept.

For second derivatives, backward runs the differentiable forward again from the saved inputs: a
saved intermediate would be a constant to autograd, and the second derivative silently wrong.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from scalednl.ops.gram.forward import (
    Matrices,
    Scalar,
    Vector,
    branch_statistics,
    centre_rows,
    mix_forward,
    mix_normalised_forward,
)
from scalednl.ops.gram.mixing import (
    KeyMoments,
    Mixing,
    MixingGradients,
    PerImage,
    Projections,
    Stack,
    mixing_backward,
    mixing_matrix,
)
from scalednl.ops.layout import (
    Rows,
    add_mixed_,
    dense_rows,
    full_precision,
    mix_rows,
    per_image,
    product_over_pixels,
)
from scalednl.ops.masks import Count, Exist, count_pixels

Gradients = tuple[Tensor | None, ...]


def mix_backward(ctx: Any, grad: Rows) -> Gradients:
    """The gradients of the inputs of `gram_mix`."""
    rows, key_rows, theta, phi, g, out, constant, exist, *small = ctx.saved_tensors
    mean, scatter, matrix, factor = small
    factor = ctx.factor if factor is None else factor
    w = Projections(theta, phi, g, out, heads=ctx.heads, factor=factor, center=ctx.center)
    with full_precision(rows):
        if torch.is_grad_enabled():
            own = rows if key_rows is None else key_rows
            again = mix_forward(rows, own, w, constant, exist, residual=ctx.residual)
            inputs = (rows, key_rows, theta, phi, g, out, constant)
            return *_differentiated(ctx, again.rows, inputs, grad), *[None] * 6
        # The number of pixels is only needed beside a mean, which centred keys do without.
        keys = KeyMoments(0, mean, scatter)
        wide = w.to(scatter.dtype)
        mixing = None
        if matrix is None:
            mixing = mixing_matrix(keys, wide)
            matrix = mixing.matrix
        grad = dense_rows(grad)
        d_matrix = _product_over_pixels(grad, rows)
        keys_at = 0 if key_rows is None else 1
        d = _mixing_backward(ctx, d_matrix, keys, wide, mixing, keys_at=keys_at, weights_at=2)
        d_rows = d_keys = d_constant = None
        on_keys, shift = _on_keys(d, mean)
        if ctx.needs_input_grad[0]:
            own_shift = shift if key_rows is None else None
            transposed = matrix.permute(1, 2, 0).to(rows.dtype)
            if not ctx.residual:
                d_rows = mix_rows(grad, transposed, own_shift)
            elif own_shift is None:
                d_rows = add_mixed_(grad.clone(), grad, transposed)
            else:
                d_rows = add_mixed_(grad + own_shift[:, None].to(grad.dtype), grad, transposed)
        if on_keys is not None and key_rows is not None:
            d_keys = mix_rows(dense_rows(key_rows), on_keys.to(key_rows.dtype), shift)
        elif on_keys is not None and d_rows is not None:
            add_mixed_(d_rows, dense_rows(rows), on_keys.to(rows.dtype))
        if ctx.needs_input_grad[6]:
            d_constant = grad.sum((0, 1), dtype=scatter.dtype).to(constant.dtype)
    d_weights = _for_weights(w, d.theta, d.phi, d.g, d.out)
    return d_rows, d_keys, *d_weights, d_constant, *[None] * 6


def mix_normalised_backward(ctx: Any, grad: Rows) -> Gradients:
    """The gradients of the inputs of `gram_mix_normalised`.

    P, Wo, u and its statistics are those of u / scale here; see `range_scale`. The gradient du of
    the branch is never formed. With du = gain dz - level - pull (u - mean) (`_NormGradients`),
    du x^T and P^T du split into dz x^T, (gain P)^T dz and matrices C x C:

        du x^T = gain dz x^T - pull P S - N (level + pull (mean of u - mean)) m^T
        P^T du = (gain P)^T dz - (P^T pull P) x + P^T (pull mean - level)

    With a mask, all of it is about x minus its mean, which is 0 where no pixel exists; N is the
    number of pixels of each image.
    """
    rows, theta, phi, g, out, gamma, beta, exist, *small = ctx.saved_tensors
    x_mean, scatter, mean, var, scale, matrix, half, image_mean, spread, centred = small[:10]
    factor = ctx.factor if small[10] is None else small[10]
    w = Projections(theta, phi, g, out, heads=ctx.heads, factor=factor, center=ctx.center)
    with full_precision(rows):
        if torch.is_grad_enabled():
            again = mix_normalised_forward(rows, w, gamma, beta, exist, eps=ctx.eps)
            inputs = (rows, theta, phi, g, out, gamma, beta)
            return *_differentiated(ctx, again.mixed.rows, inputs, grad), *[None] * 6
        pixels = rows.shape[1] if exist is None else count_pixels(exist, scatter.dtype)
        keys = KeyMoments(pixels, x_mean, scatter)
        wide = w.to(scatter.dtype).divided(scale)
        known: Mixing | Tensor = half
        if matrix is None:
            known = mixing_matrix(keys, wide)
            matrix = known.matrix
            *_, image_mean, spread = branch_statistics(known, keys)
        if exist is not None and centred is None:
            centred = centre_rows(rows, exist)[1]
        grad = dense_rows(grad)
        d_matrix, d_sum, count = _sums(grad, rows, x_mean, pixels, exist, centred)
        n = _norm_gradients(d_matrix, d_sum, count, matrix, mean, var, gamma, ctx.eps * scale**-2)
        d_matrix *= n.gain[:, None, None]
        d_matrix.addcmul_(spread.transpose(0, 1), n.pull[:, None, None], value=-1)
        along_mean = per_image(pixels, 1) * (n.level + n.pull * (image_mean - mean))
        d_matrix.addcmul_(along_mean.mT[..., None], x_mean, value=-1)
        d = _mixing_backward(ctx, d_matrix, keys, wide, known)
        d_rows = None
        if d.scatter is not None:
            transposed = matrix.permute(1, 2, 0)
            on_x = _symmetric(d.scatter)
            pulled = (n.pull[:, None, None] * matrix).transpose(0, 1)
            if exist is None:
                added = (transposed * (n.pull * mean - n.level)).sum(2)
                added -= (on_x * x_mean[:, None]).sum(2)
            else:
                level = n.pull * (mean - image_mean) - n.level
                added = (transposed * level[:, None]).sum(2)
            if d.mean is not None:
                added += d.mean / (pixels if exist is None else pixels.clamp_min(1)[:, None])
            on_x = on_x.baddbmm_(transposed, pulled, alpha=-1).to(rows.dtype)
            on_grad, added = (transposed * n.gain).to(rows.dtype), added.to(grad.dtype)
            if exist is None:
                d_rows = add_mixed_(grad + added[:, None], grad, on_grad)
                add_mixed_(d_rows, dense_rows(rows), on_x)
            else:
                branch = mix_rows(grad, on_grad, added)
                add_mixed_(branch, centred.to(rows.dtype), on_x)
                d_rows = grad.addcmul(branch, exist.to(grad.dtype))
        d_out = None if d.out is None else d.out / scale
        d_gamma = None if gamma is None else n.gamma.to(gamma.dtype)
        d_beta = None if beta is None else n.beta.to(beta.dtype)
    d_weights = _for_weights(w, d.theta, d.phi, d.g, d_out)
    return d_rows, *d_weights, d_gamma, d_beta, *[None] * 6


class _NormGradients(NamedTuple):
    """Backward of batch norm in training: du = gain dz - level - pull (u - mean).

    With sigma the deviation of u and N its count: gain = gamma / sigma, level = gain mean(dz) and
    pull = gain mean(dz (u - mean)) / sigma^2; dgamma and dbeta are the sums behind those means.
    """

    gain: Vector
    level: Vector
    pull: Vector
    gamma: Vector
    beta: Vector


def _sums(
    grad: Rows,
    rows: Rows,
    x_mean: PerImage,
    pixels: Count,
    exist: Exist | None,
    centred: Rows | None,
) -> tuple[Stack, Vector, int | Scalar]:
    """dz x^T of every image, the sum of dz, and the number of pixels of the batch."""
    if exist is None or centred is None:
        d_matrix = _product_over_pixels(grad, rows)
        return d_matrix, grad.sum((0, 1), dtype=d_matrix.dtype), grad.shape[0] * grad.shape[1]
    d_matrix = _product_over_pixels(grad, centred)
    sums = torch.bmm(exist.to(d_matrix.dtype).mT, grad.to(d_matrix.dtype)).squeeze(1)
    d_matrix += sums.mT[..., None] * x_mean
    assert isinstance(pixels, Tensor)
    return d_matrix, sums.sum(0), pixels.sum().clamp_min(1)


def _norm_gradients(
    d_matrix: Stack,
    d_beta: Vector,
    count: int | Scalar,
    matrix: Stack,
    mean: Vector,
    var: Vector,
    gamma: Vector | None,
    eps: Scalar,
) -> _NormGradients:
    """The same from dz x^T and P: the sum of dz u over pixels is that of (dz x^T) P by row."""
    inverse = (var + eps).rsqrt()
    gain = inverse if gamma is None else gamma.to(inverse.dtype) * inverse
    d_gamma = inverse * ((d_matrix * matrix).sum((1, 2)) - mean * d_beta)
    return _NormGradients(
        gain, gain * d_beta / count, gain * inverse * d_gamma / count, d_gamma, d_beta
    )


def _product_over_pixels(grad: Rows, rows: Rows) -> Stack:
    """dz x^T of every image, summed in full precision."""
    return product_over_pixels(grad, rows).transpose(0, 1).contiguous()


def _mixing_backward(
    ctx: Any,
    d_matrix: Stack,
    keys: KeyMoments,
    w: Projections,
    known: Mixing | Tensor | None,
    *,
    keys_at: int = 0,
    weights_at: int = 1,
) -> MixingGradients:
    """`mixing_backward` of what is asked for; keys and weights are inputs at these places."""
    return mixing_backward(
        d_matrix,
        keys,
        w,
        known=known,
        need_keys=ctx.needs_input_grad[keys_at],
        need_weights=any(ctx.needs_input_grad[weights_at : weights_at + 4]),
    )


def _on_keys(d: MixingGradients, mean: PerImage | None) -> tuple[Matrices | None, Tensor | None]:
    """The gradient of the keys as a matrix on their rows, and a vector on all of an image."""
    if d.scatter is None:
        return None, None
    on_keys = _symmetric(d.scatter)
    return on_keys, None if mean is None else -(on_keys * mean[:, None]).sum(2)


def _symmetric(stack: Stack) -> Matrices:
    """Each matrix plus its transpose: the gradient of x x^T acts on x as both.

    Matrices are made contiguous first: in a stack, the columns of one are a page apart. The clone
    is written to, because `contiguous` would share the memory of matrices with one channel.
    """
    matrices = stack.transpose(0, 1).contiguous()
    return matrices.mT.clone(memory_format=torch.contiguous_format).add_(matrices)


def _for_weights(w: Projections, *gradients: Tensor | None) -> Gradients:
    """The gradients of theta, phi, g and out, each in its weight's dtype."""
    pairs = zip(w.weights(), gradients, strict=True)
    return tuple(None if v is None or t is None else v.to(t.dtype) for t, v in pairs)


def _differentiated(
    ctx: Any, result: Tensor, inputs: tuple[Tensor | None, ...], grad: Tensor
) -> Gradients:
    """Gradients of `result` that can be differentiated again; None where none is needed."""
    wanted = {i: t for i, t in enumerate(inputs) if ctx.needs_input_grad[i] and t is not None}
    found = torch.autograd.grad(
        result, list(wanted.values()), grad, create_graph=True, allow_unused=True
    )
    by_index = dict(zip(wanted, found, strict=True))
    return tuple(by_index.get(i) for i in range(len(inputs)))
