"""The hand-written backward of the gram order: five products over pixels; x and little else kept.

For second derivatives, backward runs the differentiable forward again from the saved inputs: a
saved intermediate would be a constant to autograd, and the second derivative silently wrong.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.ops.gram.forward import (
    Matrices,
    Scalar,
    Vector,
    branch_statistics,
    mix_forward,
    mix_normalised_forward,
)
from scalednl.ops.gram.mixing import (
    KeyMoments,
    MixingGradients,
    Projections,
    Stack,
    mixing_backward,
    mixing_matrix,
)
from scalednl.ops.layout import (
    Rows,
    accumulation_dtype,
    add_mixed_,
    dense_rows,
    full_precision,
    mix_rows,
)

Gradients = tuple[Tensor | None, ...]


class GramMix(torch.autograd.Function):
    """`mix_forward` without biases. Kept: x, its Gram matrix and, unless lean, P."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Rows,
        theta: Tensor,
        phi: Tensor,
        g: Tensor,
        out: Tensor,
        constant: Vector | None,
        heads: int,
        factor: float,
        residual: bool,
        lean: bool,
    ) -> Rows:
        w = Projections(theta, phi, g, out, heads=heads, factor=factor)
        mixed = mix_forward(rows, rows, w, constant, residual=residual)
        matrix = None if lean else mixed.mixing.matrix
        ctx.save_for_backward(rows, theta, phi, g, out, constant, mixed.keys.scatter, matrix)
        ctx.heads, ctx.factor = heads, factor
        ctx.residual = residual
        return mixed.rows

    @staticmethod
    def backward(ctx: Any, grad: Rows) -> Gradients:
        rows, theta, phi, g, out, constant, scatter, matrix = ctx.saved_tensors
        w = Projections(theta, phi, g, out, heads=ctx.heads, factor=ctx.factor)
        with full_precision(rows):
            if torch.is_grad_enabled():
                again = mix_forward(rows, rows, w, constant, residual=ctx.residual)
                inputs = (rows, theta, phi, g, out, constant)
                return *_differentiated(ctx, again.rows, inputs, grad), None, None, None, None
            keys = KeyMoments(rows.shape[1], None, scatter)
            wide = w.to(scatter.dtype)
            half = None
            if matrix is None:
                matrix, half = mixing_matrix(keys, wide)[:2]
            grad = dense_rows(grad)
            d_matrix = _product_over_pixels(grad, rows)
            d = _mixing_backward(ctx, d_matrix, keys, wide, half)
            d_rows = d_constant = None
            if d.scatter is not None:
                transposed = matrix.permute(1, 2, 0).to(rows.dtype)
                if ctx.residual:
                    d_rows = add_mixed_(grad.clone(), grad, transposed)
                else:
                    d_rows = mix_rows(grad, transposed)
                add_mixed_(d_rows, dense_rows(rows), _symmetric(d.scatter).to(rows.dtype))
            if ctx.needs_input_grad[5]:
                d_constant = grad.sum((0, 1), dtype=scatter.dtype).to(constant.dtype)
        return d_rows, *_for_weights(w, d), d_constant, None, None, None, None


class GramMixNormalised(torch.autograd.Function):
    """`mix_normalised_forward` without biases. Kept: x, its moments and, unless lean, P, Wg S, P S.

    P, Wo, u and its statistics are those of u / scale here; see `range_scale`. The gradient du of
    the branch is never formed. With du = gain dz - level - pull (u - mean) (`_NormGradients`),
    du x^T and P^T du split into dz x^T, (gain P)^T dz and matrices C x C:

        du x^T = gain dz x^T - pull P S - N (level + pull (mean of u - mean)) m^T
        P^T du = (gain P)^T dz - (P^T pull P) x + P^T (pull mean - level)
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
        heads: int,
        factor: float,
        eps: float,
        lean: bool,
    ) -> tuple[Rows, Vector, Vector]:
        w = Projections(theta, phi, g, out, heads=heads, factor=factor)
        mixed, (mean, var, image_mean, spread), scale = mix_normalised_forward(
            rows, w, gamma, beta, eps=eps
        )
        large = [mixed.mixing.matrix, mixed.mixing.half, image_mean, spread]
        ctx.save_for_backward(
            *(rows, theta, phi, g, out, gamma, beta),
            *(mixed.keys.mean, mixed.keys.scatter, mean, var, scale),
            *([None] * len(large) if lean else large),
        )
        ctx.heads, ctx.factor, ctx.eps = heads, factor, eps
        batch_mean, batch_var = mean * scale, var * scale.square()
        ctx.mark_non_differentiable(batch_mean, batch_var)
        return mixed.rows, batch_mean, batch_var

    @staticmethod
    def backward(ctx: Any, grad: Rows, *_no_gradient: Tensor) -> Gradients:
        rows, theta, phi, g, out, gamma, beta, *small = ctx.saved_tensors
        x_mean, scatter, mean, var, scale, matrix, half, image_mean, spread = small
        w = Projections(theta, phi, g, out, heads=ctx.heads, factor=ctx.factor)
        with full_precision(rows):
            if torch.is_grad_enabled():
                again, *_ = mix_normalised_forward(rows, w, gamma, beta, eps=ctx.eps)
                inputs = (rows, theta, phi, g, out, gamma, beta)
                return *_differentiated(ctx, again.rows, inputs, grad), None, None, None, None
            pixels = rows.shape[1]
            keys = KeyMoments(pixels, x_mean, scatter)
            wide = w.to(scatter.dtype).divided(scale)
            if matrix is None:
                mixing = mixing_matrix(keys, wide)
                matrix, half = mixing[:2]
                image_mean, spread = branch_statistics(mixing, keys)[2:]
            grad = dense_rows(grad)
            d_matrix = _product_over_pixels(grad, rows)
            n = _norm_gradients(grad, d_matrix, matrix, mean, var, gamma, ctx.eps / scale.square())
            d_matrix *= n.gain[:, None, None]
            d_matrix -= n.pull[:, None, None] * spread.transpose(0, 1)
            along_mean = -pixels * (n.level + n.pull * (image_mean - mean))
            d_matrix += along_mean.mT[..., None] * x_mean
            d = _mixing_backward(ctx, d_matrix, keys, wide, half)
            d_rows = None
            if d.scatter is not None and d.mean is not None:
                transposed = matrix.permute(1, 2, 0)
                on_x = _symmetric(d.scatter)
                added = d.mean / pixels - (on_x * x_mean[:, None]).sum(2)
                added += (transposed * (n.pull * mean - n.level)).sum(2)
                pulled = (n.pull[:, None, None] * matrix).transpose(0, 1)
                on_x = torch.baddbmm(on_x, transposed, pulled, alpha=-1)
                d_rows = grad + added[:, None].to(grad.dtype)
                add_mixed_(d_rows, grad, (transposed * n.gain).to(rows.dtype))
                add_mixed_(d_rows, dense_rows(rows), on_x.to(rows.dtype))
            if d.out is not None:
                d = d._replace(out=d.out / scale)
            d_gamma = None if gamma is None else n.gamma.to(gamma.dtype)
            d_beta = None if beta is None else n.beta.to(beta.dtype)
        return d_rows, *_for_weights(w, d), d_gamma, d_beta, None, None, None, None


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


def _norm_gradients(
    grad: Rows,
    d_matrix: Stack,
    matrix: Stack,
    mean: Vector,
    var: Vector,
    gamma: Vector | None,
    eps: Scalar,
) -> _NormGradients:
    """The same from dz x^T and P: the sum of dz u over pixels is that of (dz x^T) P by row."""
    count = grad.shape[0] * grad.shape[1]
    inverse = (var + eps).rsqrt()
    gain = inverse if gamma is None else gamma.to(inverse.dtype) * inverse
    d_beta = grad.sum((0, 1), dtype=inverse.dtype)
    d_gamma = inverse * ((d_matrix * matrix).sum((1, 2)) - mean * d_beta)
    return _NormGradients(
        gain, gain * d_beta / count, gain * inverse * d_gamma / count, d_gamma, d_beta
    )


def _product_over_pixels(grad: Rows, rows: Rows) -> Stack:
    """dz x^T of every image, summed in full precision."""
    dtype = accumulation_dtype(rows.dtype)
    product = torch.bmm(dense_rows(grad.to(dtype)).mT, dense_rows(rows.to(dtype)))
    return product.transpose(0, 1).contiguous()


def _mixing_backward(
    ctx: Any,
    d_matrix: Stack,
    keys: KeyMoments,
    w: Projections,
    half: Float[Tensor, "heads rows channels"] | None,
) -> MixingGradients:
    return mixing_backward(
        d_matrix,
        keys,
        w,
        half=half,
        need_keys=ctx.needs_input_grad[0],
        need_weights=any(ctx.needs_input_grad[1:5]),
    )


def _symmetric(stack: Stack) -> Matrices:
    """Each matrix plus its transpose: the gradient of x x^T acts on x as both.

    Matrices are made contiguous first: in a stack, the columns of one are a page apart. The clone
    is written to, because `contiguous` would share the memory of matrices with one channel.
    """
    matrices = stack.transpose(0, 1).contiguous()
    return matrices.mT.clone(memory_format=torch.contiguous_format).add_(matrices)


def _for_weights(w: Projections, d: MixingGradients) -> Gradients:
    """The gradients of theta, phi, g and out, each in its weight's dtype."""
    pairs = zip(w[:4], d[:4], strict=True)
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
