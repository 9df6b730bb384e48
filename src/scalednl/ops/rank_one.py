"""The rank-one order: without softmax, the magnitude view makes A_ij = s |theta_i| |phi_j|.

    u_i = sum_h |theta_h(x_i)| v_h,   v_h = s Wo_h Wg_h sum_j |phi_h(x_j)| x_j

Only theta and phi are products over pixels: g is linear, so it is applied to one weighted sum of x
per head instead of every pixel, and out to one vector per head.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from scalednl.ops.attention import centred, shared_factor
from scalednl.ops.gram.mixing import Projections, mean_of_values
from scalednl.ops.layout import HALVES, Rows, accumulation_dtype, full_precision, per_image
from scalednl.ops.masks import Count, count_pixels
from scalednl.ops.views import lengths, split_heads


def rank_one_branch(
    theta: Float[Tensor, "batch pixels embed"],
    phi: Float[Tensor, "batch keys embed"],
    key_rows: Float[Tensor, "batch keys channels"],
    w: Projections,
    key_mask: Bool[Tensor, "batch keys"] | None = None,
) -> Rows:
    """The branch u = out(y) for pixel rows, before out's bias, norm and residual.

    theta and phi are the embeddings of queries and keys; of `w`, only g, out, the factor s and the
    centring are used. Key rows outside `key_mask` must be 0.
    """
    # Beside float32 weights, under autocast, sums and u would leave float16: they are float32 too.
    wide = theta.dtype if w.g.dtype in HALVES else accumulation_dtype(theta.dtype)
    with full_precision(key_rows):
        return _branch(theta, phi, key_rows.to(wide), w, key_mask)


def _branch(
    theta: Float[Tensor, "batch pixels embed"],
    phi: Float[Tensor, "batch keys embed"],
    key_rows: Float[Tensor, "batch keys channels"],
    w: Projections,
    key_mask: Bool[Tensor, "batch keys"] | None,
) -> Rows:
    """The same in the dtype of the key rows."""
    heads = w.heads
    query_lengths, key_lengths = (
        lengths(split_heads(v, heads)).squeeze(-1).to(key_rows.dtype) for v in (theta, phi)
    )
    count: Count = key_rows.shape[1]
    exist = None
    if key_mask is not None:
        count, exist = count_pixels(key_mask, phi.dtype).clamp_min(1), key_mask[:, None, None]
        key_lengths = key_lengths.masked_fill(~key_mask[:, None], 0)
    if w.center is not None:
        key_lengths = centred(key_lengths[..., None], count, exist).squeeze(-1)
    key_lengths, factor = shared_factor(key_lengths, key_rows.shape[1], w.factor)
    sums = key_lengths @ key_rows
    context = torch.einsum("bhc,hdc->bhd", sums, w.g.unflatten(0, (heads, -1)))
    if w.g_bias is not None:
        context = context + key_lengths.sum(-1, keepdim=True) * w.g_bias.view(heads, -1)
    if isinstance(factor, Tensor):
        factor = factor.to(context.dtype).view(-1, 1, 1)
    vectors = torch.einsum("bhd,chd->bch", context * factor, w.out.unflatten(1, (heads, -1)))
    if key_rows.stride(-1) == 1:
        u = torch.bmm(query_lengths.mT, vectors.mT)
    else:
        u = torch.bmm(vectors, query_lengths).mT
    if w.center != "keys+mean":
        return u
    total = key_rows.sum(1, dtype=accumulation_dtype(key_rows.dtype))
    mean = (total / per_image(count, 1)).to(w.g.dtype)
    present = None if key_mask is None else key_mask.any(1)
    return u + mean_of_values(mean, w, present)[:, None].to(u.dtype)
