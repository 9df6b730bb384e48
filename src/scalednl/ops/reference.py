"""The paper's equations, literally: the reference that every faster path is compared with.

Nothing here is fast. Every N x N map is formed, every head has its own slice, and the symbols are
the paper's: A_ij = f(x_i, x_j) / Z(x) and y_i = sum_j A_ij g(x_j), i the query, j the key pixel.
Vectors are stored as columns: theta, phi and g are (batch, E, pixels). What the paper does not have
(other keys, masks, centred keys, a reference number of pixels) is stated as literally: pixels
outside a mask are left out of the sums, image by image.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from scalednl.attentions import ATTENTIONS
from scalednl.ops.own_attention import own_map
from scalednl.options import (
    Attention,
    Center,
    View,
    check_attention_options,
    check_center,
    check_reference,
)

Embedding = Float[Tensor, "batch embed pixels"]
KeyEmbedding = Float[Tensor, "batch embed keys"]
KeyMask = Bool[Tensor, "batch keys"]
Map = Float[Tensor, "batch heads pixels keys"]


def attention_map(
    theta: Embedding,
    phi: KeyEmbedding,
    *,
    heads: int = 1,
    attention: Attention = "scaled",
    view: View = "base",
    scale: bool = True,
    softmax_scale: float | Tensor | None = None,
    center: Center | None = None,
    reference_pixels: float | Tensor | None = None,
    key_mask: KeyMask | None = None,
) -> Map:
    """The attention map A with every factor in it, so that y = A g.

    With theta_i, phi_j the d = E / heads channels of one head, N the number of keys:

    - scaled:  A_ij = theta_i . phi_j / sqrt(N d); without `scale`, / sqrt(d); with
      `reference_pixels` R, sqrt(R / d) / N, which is the same at N = R
    - softmax: A_ij = exp(t theta_i . phi_j) / sum_k exp(t theta_i . phi_k), t = `softmax_scale`,
      a number or one number per head; None is 1 / sqrt(d), for one head the printed 1 / sqrt(C)
    - mean:    A_ij = theta_i . phi_j / N

    - an attention of a user's own: what its function gives

    The magnitude view puts |theta_i| |phi_j| for the dot product, the direction view the cosine.
    `center` subtracts from every row its mean over the keys; "keys+mean" then adds 1 / N, so that
    rows sum to 1. Keys outside `key_mask` do not exist: their columns are 0.
    """
    check_attention_options(theta.shape[1], heads, attention, view, scale)
    check_center(center, attention)
    check_reference(reference_pixels, attention, scale)
    options: dict[str, Any] = {
        "heads": heads,
        "attention": attention,
        "view": view,
        "scale": scale,
        "softmax_scale": softmax_scale,
        "center": center,
        "reference_pixels": reference_pixels,
    }
    if key_mask is not None:
        maps = theta.new_zeros(theta.shape[0], heads, theta.shape[2], phi.shape[2])
        for image, valid in enumerate(key_mask):
            if valid.any():
                one = slice(image, image + 1)
                found = attention_map(theta[one], phi[one][:, :, valid], **options)
                maps[image, :, :, valid] = found[0]
        return maps
    d = theta.shape[1] // heads
    keys = phi.shape[2]
    theta_h = theta.unflatten(1, (heads, d))
    phi_h = phi.unflatten(1, (heads, d))
    if view == "magnitude":
        theta_h = theta_h.norm(dim=2, keepdim=True)
        phi_h = phi_h.norm(dim=2, keepdim=True)
    if view == "direction":
        theta_h = _unit(theta_h)
        phi_h = _unit(phi_h)
    kind = ATTENTIONS[attention]
    if kind.form == "own":
        return own_map(_rows_of(theta_h, d), _rows_of(phi_h, d), attention)
    dot = torch.einsum("bhdi,bhdj->bhij", theta_h, phi_h)
    if kind.form == "softmax":
        t = d**-0.5 if softmax_scale is None else softmax_scale
        t = t.view(-1, 1, 1) if isinstance(t, Tensor) else t
        return (dot * t).softmax(dim=-1)
    if center is not None:
        dot = dot - dot.mean(dim=-1, keepdim=True)
    if attention == "mean":
        a = dot / keys
    elif not scale:
        a = dot / d**0.5
    elif reference_pixels is None:
        a = dot / (keys * d) ** 0.5
    else:
        a = dot * (reference_pixels / d) ** 0.5 / keys
    return a + 1 / keys if center == "keys+mean" else a


def nonlocal_attention(
    theta: Embedding,
    phi: KeyEmbedding,
    g: KeyEmbedding,
    *,
    heads: int = 1,
    attention: Attention = "scaled",
    view: View = "base",
    scale: bool = True,
    softmax_scale: float | Tensor | None = None,
    center: Center | None = None,
    reference_pixels: float | Tensor | None = None,
    key_mask: KeyMask | None = None,
) -> Embedding:
    """y_i = sum_j A_ij g_j, head by head."""
    a = attention_map(
        theta,
        phi,
        heads=heads,
        attention=attention,
        view=view,
        scale=scale,
        softmax_scale=softmax_scale,
        center=center,
        reference_pixels=reference_pixels,
        key_mask=key_mask,
    )
    g_h = g.unflatten(1, (heads, -1))
    if key_mask is not None:
        g_h = torch.where(key_mask[:, None, None], g_h, 0)
    return torch.einsum("bhij,bhdj->bhdi", a, g_h).flatten(1, 2)


def batch_norm(
    u: Float[Tensor, "batch channels pixels"],
    gamma: Float[Tensor, " channels"],
    beta: Float[Tensor, " channels"],
    eps: float,
    mask: Bool[Tensor, "batch pixels"] | None = None,
) -> Float[Tensor, "batch channels pixels"]:
    """Training-mode batch normalisation: gamma (u - mean) / sqrt(var + eps) + beta.

    Mean and variance are over the pixels of all images, with `mask` over its pixels only; pixels
    outside it become 0.
    """
    if mask is not None:
        pixels = u.transpose(1, 2)[mask].T[None]
        normalised = batch_norm(pixels, gamma, beta, eps) if pixels.numel() else pixels
        placed = torch.zeros_like(u.transpose(1, 2))
        placed[mask] = normalised[0].T
        return placed.transpose(1, 2)
    mean = u.mean(dim=(0, 2), keepdim=True)
    var = ((u - mean) ** 2).mean(dim=(0, 2), keepdim=True)
    return gamma.view(-1, 1) * (u - mean) / (var + eps).sqrt() + beta.view(-1, 1)


def nonlocal_block(
    x: Float[Tensor, "batch channels pixels"],
    theta: Float[Tensor, "embed channels"],
    phi: Float[Tensor, "embed channels"],
    g: Float[Tensor, "embed channels"],
    out: Float[Tensor, "channels embed"],
    gamma: Float[Tensor, " channels"],
    beta: Float[Tensor, " channels"],
    *,
    eps: float = 1e-5,
    heads: int = 1,
    attention: Attention = "scaled",
    view: View = "base",
) -> Float[Tensor, "batch channels pixels"]:
    """z = x + BN(Wo y) in training mode: no biases, every pixel a key.

    The paper prints y; the output convolution, norm and sum are those of the authors' release.
    """
    y = nonlocal_attention(theta @ x, phi @ x, g @ x, heads=heads, attention=attention, view=view)
    return x + batch_norm(out @ y, gamma, beta, eps)


def _rows_of(vectors: Tensor, width: int) -> Tensor:
    """Columns as rows; a length is the first of as many channels as a head has."""
    padding = vectors.new_zeros(*vectors.shape[:2], width - vectors.shape[2], vectors.shape[3])
    return torch.cat([vectors, padding], dim=2).mT


def _unit(v: Tensor) -> Tensor:
    """v / |v| over the embedding axis; the direction of a zero vector is 0, and so is its slope."""
    length = v.norm(dim=2, keepdim=True)
    return torch.where(length > 0, v / torch.where(length > 0, length, 1), 0)
