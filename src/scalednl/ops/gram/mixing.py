"""From the moments of the keys to the block's mixing matrix: all products here are small.

Per image, with S the scatter of the keys about their mean m:

    core_h = s (Wg_h S Wp_h^T + N g_h p_h^T),   g_h = Wg_h m + bg_h,  p_h = Wp_h m + bp_h
    P      = sum_h Wo_h core_h Wt_h,            u = P x + sum_h Wo_h core_h bt_h

which is the block before norm and residual: y = core theta, head by head. Without biases S may as
well be the plain Gram matrix x x^T; then the second term is left out. With centred keys it is left
out too, S being about the mean; "keys+mean" adds Wo g_h, the mean of the values, to u.

Layout. A stack of matrices is kept rows first, images second: S and P are (channels, batch,
channels), and whatever has embedding rows is (heads, width * batch, ...). Then each product with a
weight is one large matrix product over all images, or one per head, instead of one small product
per image.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from scalednl.ops.layout import per_image
from scalednl.ops.masks import Count
from scalednl.options import Center

Stack = Float[Tensor, "channels batch channels"]
Weight = Float[Tensor, "embed channels"]
PerImage = Float[Tensor, "batch channels"]


class Projections(NamedTuple):
    """The block's linear maps, its heads, and the factor s before theta . phi.

    `theta_bias`, `phi_bias` and `g_bias` are None where a map has no bias.
    """

    theta: Weight
    phi: Weight
    g: Weight
    out: Float[Tensor, "channels embed"]
    theta_bias: Float[Tensor, " embed"] | None = None
    phi_bias: Float[Tensor, " embed"] | None = None
    g_bias: Float[Tensor, " embed"] | None = None
    heads: int = 1
    factor: float | Float[Tensor, "*batch"] = 1.0
    """One number for all images, or one per image"""
    center: Center | None = None

    def weights(self) -> tuple[Weight, Weight, Weight, Float[Tensor, "channels embed"]]:
        """The maps without their biases."""
        return self.theta, self.phi, self.g, self.out

    def has_bias(self) -> bool:
        """Whether theta, phi or g has a bias."""
        return not (self.theta_bias is None is self.phi_bias is self.g_bias)

    def is_linear(self) -> bool:
        """Whether u = P x without a constant, so that the hand-written backward applies."""
        return not self.has_bias() and self.center != "keys+mean"

    def with_out(self, out: Float[Tensor, "channels embed"]) -> "Projections":
        """The same maps with another `out`."""
        return Projections(
            *(self.theta, self.phi, self.g, out),
            *(self.theta_bias, self.phi_bias, self.g_bias),
            heads=self.heads,
            factor=self.factor,
            center=self.center,
        )

    def divided(self, scale: Float[Tensor, ""]) -> "Projections":
        """The maps of a block whose branch is that of this one, divided by `scale`."""
        return self.with_out(self.out / scale)

    def to(self, dtype: torch.dtype) -> "Projections":
        """The same maps in another dtype."""
        biases = (self.theta_bias, self.phi_bias, self.g_bias)
        theta, phi, g = (None if bias is None else bias.to(dtype) for bias in biases)
        return Projections(
            *(self.theta.to(dtype), self.phi.to(dtype), self.g.to(dtype), self.out.to(dtype)),
            *(theta, phi, g),
            heads=self.heads,
            factor=self.factor.to(dtype) if isinstance(self.factor, Tensor) else self.factor,
            center=self.center,
        )


class KeyMoments(NamedTuple):
    """What attention needs to know of the keys: how many, and their moments about their mean.

    With `mean` None the moments are about 0: `scatter` is then x x^T itself.
    """

    pixels: Count
    mean: PerImage | None
    scatter: Stack


class Mixing(NamedTuple):
    """The mixing matrix and what its backward can use again."""

    matrix: Stack
    """P"""
    half: Float[Tensor, "heads rows channels"]
    """Wg S"""
    core: Float[Tensor, "heads rows width"]
    right: Float[Tensor, "heads rows channels"]
    """core Wt"""
    shift: PerImage | None
    """What theta's bias and the mean of the values add to u"""


def mixing_matrix(keys: KeyMoments, w: Projections) -> Mixing:
    """P of every image, in differentiable operations."""
    heads, embed = w.heads, w.out.shape[1]
    channels, batch, _ = keys.scatter.shape
    half = _half(keys.scatter, w)
    core = _core(half, keys, w)
    right = torch.bmm(core, _by_head(w.theta, heads))
    by_row = right.unflatten(1, (embed // heads, batch)).flatten(0, 1)
    matrix = torch.mm(w.out, by_row.flatten(1)).unflatten(1, (batch, channels))
    shift = None
    if w.theta_bias is not None:
        per_row = torch.bmm(core, w.theta_bias.view(heads, embed // heads, 1))
        shift = (w.out @ per_row.view(embed, batch)).mT
    if w.center == "keys+mean":
        assert keys.mean is not None, "the mean of the values needs centred moments"
        present = keys.pixels > 0 if isinstance(keys.pixels, Tensor) else None
        added = mean_of_values(keys.mean, w, present)
        shift = added if shift is None else shift + added
    return Mixing(matrix, half, core, right, shift)


def mean_of_values(
    mean: PerImage, w: Projections, present: Bool[Tensor, " batch"] | None
) -> PerImage:
    """Wo (Wg m + bg), m the mean of the keys; 0 for images without keys."""
    values = mean @ w.g.mT
    if w.g_bias is not None:
        values = values + w.g_bias
    if present is not None:
        values = values * present[:, None]
    return values @ w.out.mT


class MixingGradients(NamedTuple):
    """Gradients of `mixing_matrix` for maps without bias; None where not asked for."""

    theta: Weight | None
    phi: Weight | None
    g: Weight | None
    out: Float[Tensor, "channels embed"] | None
    scatter: Stack | None
    mean: PerImage | None


def mixing_backward(
    d_matrix: Stack,
    keys: KeyMoments,
    w: Projections,
    *,
    known: Mixing | Float[Tensor, "heads rows channels"] | None,
    need_keys: bool,
    need_weights: bool,
) -> MixingGradients:
    """Push the gradient of P back to the moments and the weights.

    `known` is what `mixing_matrix` found, or Wg S of it; the rest is computed again. core and right
    cost width / channels of the products around them.
    """
    heads, embed = w.heads, w.out.shape[1]
    channels, batch, _ = keys.scatter.shape
    if isinstance(known, Mixing):
        half, core = known.half, known.core
    else:
        half = _half(keys.scatter, w) if known is None else known
        core = _core(half, keys, w)
    d_flat = d_matrix.view(channels, batch * channels)
    d_right = (w.out.mT @ d_flat).view_as(half)
    d_core = _times_factor(torch.bmm(d_right, _by_head(w.theta, heads).mT), w, batch)
    d_half = torch.bmm(d_core, _by_head(w.phi, heads))
    d_theta = d_phi = d_g = d_out = d_scatter = d_mean = None
    if need_weights:
        if isinstance(known, Mixing):
            right = known.right
        else:
            right = torch.bmm(core, _by_head(w.theta, heads))
        d_out = d_flat @ right.view(embed, batch * channels).mT
        d_theta = torch.bmm(core.mT, d_right).view(embed, channels)
        d_phi = torch.bmm(d_core.mT, half).view(embed, channels)
        d_g = d_half.view(embed, batch * channels) @ keys.scatter.flatten(1).mT
    if need_keys:
        d_scatter = (w.g.mT @ d_half.view(embed, batch * channels)).view_as(keys.scatter)
    if keys.mean is not None and w.center is None:
        g_mean, phi_mean = _embedded_means(keys.mean, w)
        d_core = d_core.view(heads, embed // heads, batch, embed // heads)
        d_core = d_core * per_image(keys.pixels, 1)
        d_g_mean = (d_core * phi_mean[:, None]).sum(3).view(embed, batch)
        d_phi_mean = (d_core * g_mean[..., None]).sum(1).transpose(1, 2).reshape(embed, batch)
        if d_g is not None and d_phi is not None:
            d_g = d_g + d_g_mean @ keys.mean
            d_phi = d_phi + d_phi_mean @ keys.mean
        if need_keys:
            d_mean = d_g_mean.mT @ w.g + d_phi_mean.mT @ w.phi
    return MixingGradients(d_theta, d_phi, d_g, d_out, d_scatter, d_mean)


def _by_head(weight: Weight, heads: int) -> Float[Tensor, "heads width channels"]:
    return weight.unflatten(0, (heads, -1))


def _half(scatter: Stack, w: Projections) -> Float[Tensor, "heads rows channels"]:
    # Sizes are written out: a -1 would ask a symbolic batch to divide what it divides anyway.
    channels, batch, _ = scatter.shape
    rows = w.g.shape[0] // w.heads * batch
    return (w.g @ scatter.view(channels, batch * channels)).view(w.heads, rows, channels)


def _core(
    half: Float[Tensor, "heads rows channels"], keys: KeyMoments, w: Projections
) -> Float[Tensor, "heads rows width"]:
    core = torch.bmm(half, _by_head(w.phi, w.heads).mT)
    if keys.mean is not None and w.center is None:
        g_mean, phi_mean = _embedded_means(keys.mean, w)
        outer = (per_image(keys.pixels, 1) * g_mean[..., None]) * phi_mean[:, None]
        core = (core.view(outer.shape) + outer).reshape(core.shape)
    elif w.center is not None:
        # These biases move all keys and change nothing, but a gradient of 0 is one to DDP.
        for bias in (w.phi_bias, w.g_bias):
            core = core if bias is None else core + 0 * bias.sum()
    return _times_factor(core, w, keys.scatter.shape[1])


def _times_factor(
    core: Float[Tensor, "heads rows width"], w: Projections, batch: int
) -> Float[Tensor, "heads rows width"]:
    if not isinstance(w.factor, Tensor):
        return core * w.factor
    by_image = core.view(w.heads, w.g.shape[0] // w.heads, batch, core.shape[2])
    return (by_image * per_image(w.factor, 1)).view_as(core)


def _embedded_means(
    mean: PerImage, w: Projections
) -> tuple[Float[Tensor, "heads width batch"], Float[Tensor, "heads batch width"]]:
    """The mean of g, one column per image, and that of phi, one row per image."""
    g_mean, phi_mean = mean @ w.g.mT, mean @ w.phi.mT
    if w.g_bias is not None:
        g_mean = g_mean + w.g_bias
    if w.phi_bias is not None:
        phi_mean = phi_mean + w.phi_bias
    return (
        g_mean.unflatten(1, (w.heads, -1)).permute(1, 2, 0),
        phi_mean.unflatten(1, (w.heads, -1)).transpose(0, 1),
    )
