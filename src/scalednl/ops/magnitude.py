"""The magnitude view without softmax: A is rank one, so the block is one vector a head.

    u_i = sum_h |theta_h(x_i)| v_h,   v_h = s Wo_h Wg_h sum_j |phi_h(x_j)| x_j

Only theta and phi are products over pixels: g is linear, so it meets the one weighted sum of x
instead of every pixel, and out meets one vector a head instead of every pixel.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.ops.attention import shared_factor
from scalednl.ops.layout import Rows
from scalednl.ops.views import lengths, split_heads


def magnitude_branch(
    theta: Float[Tensor, "batch pixels embed"],
    phi: Float[Tensor, "batch keys embed"],
    key_rows: Float[Tensor, "batch keys channels"],
    g_weight: Float[Tensor, "embed channels"],
    g_bias: Float[Tensor, " embed"] | None,
    out_weight: Float[Tensor, "channels embed"],
    *,
    heads: int,
    factor: float,
) -> Rows:
    """The branch u = out(y) for pixel rows, before bias, norm and residual."""
    query_lengths, key_lengths = (
        lengths(split_heads(v, heads)).squeeze(-1).to(v.dtype) for v in (theta, phi)
    )
    key_lengths, factor = shared_factor(key_lengths, key_rows.shape[1], factor)
    key_rows = key_rows.to(key_lengths.dtype)
    sums = key_lengths @ key_rows
    context = torch.einsum("bhc,hdc->bhd", sums, g_weight.unflatten(0, (heads, -1)))
    if g_bias is not None:
        context = context + key_lengths.sum(-1, keepdim=True) * g_bias.view(heads, -1)
    vectors = torch.einsum("bhd,chd->bch", context * factor, out_weight.unflatten(1, (heads, -1)))
    if key_rows.stride(-1) == 1:
        return torch.bmm(query_lengths.mT, vectors.mT)
    return torch.bmm(vectors, query_lengths).mT
