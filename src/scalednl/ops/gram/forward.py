"""Forward of the gram order in differentiable operations: moments, mixing matrix, one product.

The functions also return what the hand-written backward keeps. Plain autograd can differentiate
them too; second derivatives are taken that way.
"""

from math import log2
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from scalednl.ops.gram.mixing import KeyMoments, Mixing, PerImage, Projections, Stack, mixing_matrix
from scalednl.ops.layout import (
    HALVES,
    Rows,
    accumulation_dtype,
    add_mixed_,
    dense_rows,
    gram_matrices,
    mix_rows,
    multiplies_into_float32,
    product_over_pixels,
)
from scalednl.ops.masks import Count, Exist, count_pixels, shown_rows

Vector = Float[Tensor, " channels"]
Matrices = Float[Tensor, "batch channels channels"]
Scalar = Float[Tensor, ""]


class Mixed(NamedTuple):
    """u or z as pixel rows, and what it was made of."""

    rows: Rows
    keys: KeyMoments
    mixing: Mixing


class BranchStatistics(NamedTuple):
    """Batch statistics of u = P x, found without forming u."""

    mean: Vector
    var: Vector
    """Biased, over all pixels of the batch"""
    image_mean: PerImage
    spread: Matrices
    """P S"""


def gram_moments(rows: Rows) -> KeyMoments:
    """Moments about 0: the Gram matrix x x^T, one product and no further pass over x."""
    return KeyMoments(rows.shape[1], None, stacked(product_over_pixels(rows, rows)))


def centred_moments(rows: Rows, exist: Exist | None = None) -> tuple[KeyMoments, Rows | None]:
    """Moments about the mean of each image, and what `mean_and_scatter` made of the rows."""
    mean, scatter, centred, count = mean_and_scatter(rows, exist)
    return KeyMoments(count, mean, stacked(scatter)), centred


def mean_and_scatter(
    rows: Rows, exist: Exist | None = None
) -> tuple[PerImage, Matrices, Rows | None, Count]:
    """m = mean_j x_j, S = sum_j (x_j - m)(x_j - m)^T, the rows x_j - m, and their number.

    All of each image, over the pixels that exist; rows of the others are 0. Rows are None where a
    product into float32 needs no copy of them, S being x x^T - N m m^T. What this loses if m is
    large is of the size of N m^2 2^-24, while rounding x to half has cost N m^2 2^-24 / 3 or more.
    """
    if exist is None and multiplies_into_float32(rows):
        pixels, mean = rows.shape[1], rows.mean(1, dtype=torch.float32)
        scatter = product_over_pixels(rows, rows)
        return mean, scatter.baddbmm_(mean[:, :, None], mean[:, None], alpha=-pixels), None, pixels
    mean, centred, count = centre_rows(rows, exist)
    return mean, gram_matrices(centred), centred, count


def centre_rows(rows: Rows, exist: Exist | None = None) -> tuple[PerImage, Rows, Count]:
    """The mean of each image, the rows minus it, and their number; see `mean_and_scatter`."""
    rows = dense_rows(rows.to(accumulation_dtype(rows.dtype)))
    if exist is None:
        mean = rows.mean(dim=1)
        return mean, rows - mean[:, None], rows.shape[1]
    count = count_pixels(exist, rows.dtype)
    shown = shown_rows(rows, exist)
    mean = shown.sum(1) / count.clamp_min(1)[:, None]
    # In place: nothing needs the rows before, and a further map costs more than the sum.
    return mean, shown.addcmul_(mean[:, None], exist.to(rows.dtype), value=-1), count


def stacked(matrices: Matrices) -> Stack:
    """One matrix per image in the layout of `ops.gram.mixing`."""
    return matrices.transpose(0, 1).contiguous()


def mix_forward(
    rows: Rows,
    key_rows: Float[Tensor, "batch keys channels"],
    w: Projections,
    constant: Vector | None,
    exist: Bool[Tensor, "batch keys 1"] | None = None,
    *,
    residual: bool,
) -> Mixed:
    """u = P x, or x + P x + constant with `residual`; key rows that do not exist must be 0."""
    keys, mixing, added = _mixing_of(key_rows, w, constant, exist)
    return Mixed(apply_matrix(rows, mixing.matrix, added, residual=residual), keys, mixing)


def mix_where(
    rows: Rows,
    shown: Rows,
    exist: Exist,
    key_rows: Float[Tensor, "batch keys channels"],
    w: Projections,
    constant: Vector | None,
    key_exist: Bool[Tensor, "batch keys 1"] | None,
) -> Rows:
    """x + P x + constant where a pixel exists, x elsewhere; `shown` rows are 0 there."""
    _, mixing, added = _mixing_of(key_rows, w, constant, key_exist)
    if added is None:
        added = rows.new_zeros(rows.shape[2])
    return _add_where(rows, shown, mixing.matrix, added, exist)


def _mixing_of(
    key_rows: Float[Tensor, "batch keys channels"],
    w: Projections,
    constant: Vector | None,
    exist: Bool[Tensor, "batch keys 1"] | None,
) -> tuple[KeyMoments, Mixing, Float[Tensor, "*batch channels"] | None]:
    """The keys' moments, P, and what is added to every pixel of an image."""
    w = w.to(accumulation_dtype(key_rows.dtype))
    if w.has_bias() or w.center is not None:
        keys = centred_moments(key_rows, exist)[0]
    else:
        keys = gram_moments(key_rows)
    mixing = mixing_matrix(keys, w)
    added = constant if mixing.shift is None else mixing.shift
    if constant is not None and mixing.shift is not None:
        added = mixing.shift + constant
    return keys, mixing, added


class Normalised(NamedTuple):
    """x + BN(P x), and what it was made of; all but the rows of z is that of u / scale."""

    mixed: Mixed
    statistics: BranchStatistics
    scale: Scalar
    centred: Rows | None
    """x minus its mean, 0 where no pixel exists; None without a mask"""


def mix_normalised_forward(
    rows: Rows,
    w: Projections,
    gamma: Vector | None,
    beta: Vector | None,
    exist: Exist | None = None,
    *,
    eps: float,
) -> Normalised:
    """x + BN(P x), BN with the statistics of this batch, and x itself where no pixel exists.

    P and the statistics that are returned are those of u / scale; see `range_scale`.
    """
    w = w.to(accumulation_dtype(rows.dtype))
    keys, centred = centred_moments(rows, exist)
    scale = range_scale(keys, w)
    mixing = mixing_matrix(keys, w.divided(scale))
    statistics = branch_statistics(mixing, keys)
    matrix, constant = normalised(
        mixing, statistics.mean, statistics.var, gamma, beta, eps * scale**-2
    )
    if exist is None:
        z = apply_matrix(rows, matrix, constant, residual=True)
        return Normalised(Mixed(z, keys, mixing), statistics, scale, None)
    assert keys.mean is not None
    assert centred is not None
    constant = constant + (matrix.transpose(0, 1) * keys.mean[:, None]).sum(2)
    z = _add_where(rows, centred, matrix, constant, exist)
    return Normalised(Mixed(z, keys, mixing), statistics, scale, centred)


@torch.no_grad()
def range_scale(keys: KeyMoments, w: Projections) -> Scalar:
    """A scale s, 1 but for huge x, such that the variance of u / s does not overflow.

    u grows as the third power of x, so its variance leaves float32 at |x| of 1e6, where u itself
    does not. Batch norm of u / s with eps / s^2 is that of u with eps. If no channel has a larger
    sum of squares than T, C T bounds the norm of x x^T, and so sqrt(C T) C T |Wt| |Wp| |Wg| |Wo|,
    times the factor before theta . phi, bounds u.
    """
    assert keys.mean is not None, "the bound needs centred moments"
    # The largest entry of a scatter is on its diagonal.
    largest = torch.linalg.vector_norm(keys.mean, torch.inf)
    if isinstance(keys.pixels, Tensor):
        squares = keys.scatter.amax() + keys.pixels.amax() * largest.square()
    else:
        squares = torch.addcmul(keys.scatter.amax(), largest, largest, value=keys.pixels)
    weights = torch.stack((w.theta, w.phi, w.g, w.out.mT))
    norms = torch.linalg.vector_norm(weights, dim=(1, 2)).log2().sum()
    # Squares of u / s are to use at most this share of the exponents.
    limit = 0.47 * log2(torch.finfo(norms.dtype).max)
    factor = w.factor.amax() if isinstance(w.factor, Tensor) else w.factor
    bound = (squares * (keys.mean.shape[1] * factor ** (2 / 3) * 2 ** (-limit / 1.5))).log2()
    return torch.add(norms, bound, alpha=1.5).ceil().clamp_min(0).exp2()


def branch_statistics(mixing: Mixing, keys: KeyMoments) -> BranchStatistics:
    """Mean and variance of u over the batch.

    Per image the mean is P m and the scatter diag(P S P^T); the batch's variance is the mean of
    the scatters per pixel plus the variance of the means. Rounding may leave a scatter that should
    be 0 below it.
    """
    assert keys.mean is not None, "statistics need centred moments"
    matrix = mixing.matrix.transpose(0, 1)
    spread = torch.bmm(matrix, keys.scatter.transpose(0, 1))
    image_mean = (matrix * keys.mean[:, None]).sum(2)
    if mixing.shift is not None:
        image_mean = image_mean + mixing.shift
    scatter = (spread * matrix).sum(2)
    if isinstance(keys.pixels, Tensor):
        total = keys.pixels.sum().clamp_min(1)
        share = (keys.pixels / total)[:, None]
        within = (scatter.sum(0) / total).clamp_min(0)
        mean = (image_mean * share).sum(0)
        between = ((image_mean - mean).square() * share).sum(0)
    else:
        within = (scatter.mean(0) / keys.pixels).clamp_min(0)
        between, mean = torch.var_mean(image_mean, 0, correction=0)
    return BranchStatistics(mean, within + between, image_mean, spread)


def normalised(
    mixing: Mixing,
    mean: Vector,
    var: Vector,
    gamma: Vector | None,
    beta: Vector | None,
    eps: float | Scalar,
) -> tuple[Stack, Float[Tensor, "*batch channels"]]:
    """The matrix and constant of BN(P x + shift) = matrix x + constant."""
    gain = (var + eps).rsqrt()
    if gamma is not None:
        gain = gamma.to(gain.dtype) * gain
    if beta is None:
        constant = -gain * mean
    else:
        constant = torch.addcmul(beta.to(gain.dtype), gain, mean, value=-1)
    if mixing.shift is not None:
        constant = constant + gain * mixing.shift
    return gain[:, None, None] * mixing.matrix, constant


def apply_matrix(
    rows: Rows,
    matrix: Stack,
    constant: Float[Tensor, "*batch channels"] | None,
    *,
    residual: bool,
) -> Rows:
    """Matrix x + constant for every pixel, plus x itself with `residual`.

    x enters as the accumulator of the product, never as 1 on the diagonal of the matrix: that
    would round the branch to the precision of x. In half precision it is added last, so that the
    sum is rounded once.
    """
    rows = dense_rows(rows)
    matrix = matrix.transpose(0, 1).to(rows.dtype)
    added = None if constant is None else constant.unsqueeze(-2).to(rows.dtype)
    if not residual or rows.dtype in HALVES or torch._C._are_functorch_transforms_active():
        u = mix_rows(rows, matrix)
        u = u if added is None else u + added
        return rows + u if residual else u
    z = rows.clone() if added is None else rows + added
    return add_mixed_(z, rows, matrix)


def _add_where(
    rows: Rows,
    others: Rows,
    matrix: Stack,
    constant: Float[Tensor, "*batch channels"],
    exist: Exist,
) -> Rows:
    """Rows + matrix others + constant where a pixel exists, the rows themselves elsewhere.

    `others` are 0 where no pixel exists.
    """
    rows, matrix = dense_rows(rows), matrix.transpose(0, 1).to(rows.dtype)
    here, added = exist.to(rows.dtype), constant.unsqueeze(-2).to(rows.dtype)
    if rows.dtype in HALVES or torch._C._are_functorch_transforms_active():
        return rows + (mix_rows(others.to(rows.dtype), matrix) + added) * here
    return add_mixed_(torch.addcmul(rows, added, here), others, matrix)
