"""The rank-one order: without softmax, the magnitude view makes A_ij = s |theta_i| |phi_j|.

    u_i = sum_h |theta_h(x_i)| v_h,   v_h = s Wo_h Wg_h sum_j |phi_h(x_j)| x_j

Only theta and phi are products over pixels: g is linear, so it is applied to one weighted sum of x
per head instead of every pixel, and out to one vector per head.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.ops.attention import shared_factor
from scalednl.ops.gram.mixing import Projections
from scalednl.ops.layout import Rows
from scalednl.ops.views import lengths, split_heads


def rank_one_branch(
    theta: Float[Tensor, "batch pixels embed"],
    phi: Float[Tensor, "batch keys embed"],
    key_rows: Float[Tensor, "batch keys channels"],
    w: Projections,
) -> Rows:
    """The branch u = out(y) for pixel rows, before out's bias, norm and residual.

    theta and phi are the embeddings of queries and keys; of `w`, only g, out and the factor s are
    used.
    """
    heads = w.heads
    query_lengths, key_lengths = (
        lengths(split_heads(v, heads)).squeeze(-1).to(v.dtype) for v in (theta, phi)
    )
    key_lengths, factor = shared_factor(key_lengths, key_rows.shape[1], w.factor)
    key_rows = key_rows.to(key_lengths.dtype)
    sums = key_lengths @ key_rows
    context = torch.einsum("bhc,hdc->bhd", sums, w.g.unflatten(0, (heads, -1)))
    if w.g_bias is not None:
        context = context + key_lengths.sum(-1, keepdim=True) * w.g_bias.view(heads, -1)
    vectors = torch.einsum("bhd,chd->bch", context * factor, w.out.unflatten(1, (heads, -1)))
    if key_rows.stride(-1) == 1:
        return torch.bmm(query_lengths.mT, vectors.mT)
    return torch.bmm(vectors, query_lengths).mT
