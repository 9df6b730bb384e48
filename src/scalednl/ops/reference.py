"""The paper's equations, literally: the reference that every faster path is compared with.

Nothing here is fast. Every N x N map is formed, every head has its own slice, and the symbols are
the paper's: A_ij = f(x_i, x_j) / Z(x) and y_i = sum_j A_ij g(x_j), i the query, j the key pixel.
Vectors are stored as columns: theta, phi and g are (batch, E, pixels).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.options import Attention, View, check_attention_options

Embedding = Float[Tensor, "batch embed pixels"]
KeyEmbedding = Float[Tensor, "batch embed keys"]
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
) -> Map:
    """The attention map A with every factor in it, so that y = A g.

    With theta_i, phi_j the d = E / heads channels of one head, N the number of keys:

    - scaled:  A_ij = theta_i . phi_j / sqrt(N d); without `scale`, / sqrt(d)
    - softmax: A_ij = exp(t theta_i . phi_j) / sum_k exp(t theta_i . phi_k), t = `softmax_scale`,
      a number or one number per head; None is 1 / sqrt(d), for one head the printed 1 / sqrt(C)
    - mean:    A_ij = theta_i . phi_j / N

    The magnitude view puts |theta_i| |phi_j| for the dot product, the direction view the cosine.
    """
    check_attention_options(theta.shape[1], heads, attention, view, scale)
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
    dot = torch.einsum("bhdi,bhdj->bhij", theta_h, phi_h)
    if attention == "softmax":
        t = d**-0.5 if softmax_scale is None else softmax_scale
        t = t.view(-1, 1, 1) if isinstance(t, Tensor) else t
        return (dot * t).softmax(dim=-1)
    if attention == "mean":
        return dot / keys
    dot = dot / d**0.5
    return dot / keys**0.5 if scale else dot


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
    )
    g_h = g.unflatten(1, (heads, -1))
    return torch.einsum("bhij,bhdj->bhdi", a, g_h).flatten(1, 2)


def batch_norm(
    u: Float[Tensor, "batch channels pixels"],
    gamma: Float[Tensor, " channels"],
    beta: Float[Tensor, " channels"],
    eps: float,
) -> Float[Tensor, "batch channels pixels"]:
    """Training-mode batch normalisation: gamma (u - mean) / sqrt(var + eps) + beta."""
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


def _unit(v: Tensor) -> Tensor:
    """v / |v| over the embedding axis; the direction of a zero vector is 0, and so is its slope."""
    length = v.norm(dim=2, keepdim=True)
    return torch.where(length > 0, v / torch.where(length > 0, length, 1), 0)
