"""Spearman's rank correlation of many lists at once."""

import torch
from jaxtyping import Float
from torch import Tensor

Lists = Float[Tensor, "*lists n"]


def ranks(values: Lists) -> Lists:
    """Ranks from 1; equal values share the mean of their ranks."""
    values = values.contiguous()
    ordered = values.sort(-1).values
    below = torch.searchsorted(ordered, values)
    not_above = torch.searchsorted(ordered, values, right=True)
    return (below + not_above + 1).to(values.dtype) / 2


def rank_correlation(first: Lists, second: Lists) -> Float[Tensor, "*lists"]:
    """Pearson's correlation of the ranks; 0 where either list is constant."""
    a, b = (r - r.mean(-1, keepdim=True) for r in (ranks(first), ranks(second)))
    sizes = a.norm(dim=-1) * b.norm(dim=-1)
    product = (a * b).sum(-1)
    return torch.where(sizes > 0, product / torch.where(sizes > 0, sizes, 1), 0).clamp(-1, 1)
