"""Sums over the rows of attention maps, from which scores follow.

Without softmax they come from matrices of d x d, d the channels of a head, and no entry of a map is
formed. Else rows are formed some at a time, once.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.analysis.factors import Factors

Score = Float[Tensor, "*maps"]
PerKey = Float[Tensor, "*maps keys"]


@dataclass(frozen=True)
class Sums:
    """Of every map, in float64."""

    column_mean: PerKey
    """mean_i A_ij"""
    column_square: PerKey
    """mean_i A_ij^2"""
    square: Score
    """mean_ij (A_ij - c)^2"""
    centre: float
    """c: the mean of every softmax row, known exactly; 0 for others"""
    unit_rows: PerKey
    """sum_i A_i / |A_i|"""
    present_rows: Score
    """How many rows are not 0"""


def sums_of(maps: Factors) -> Sums:
    """The sums, by the way that suits the attention."""
    return _by_rows(maps) if maps.softmax else _by_moments(maps)


def _by_rows(maps: Factors) -> Sums:
    """One pass over softmax rows, none of which is 0."""
    centre = 1 / maps.keys
    mean, square, units = (
        maps.phi.new_zeros(maps.phi.shape[:-1], dtype=torch.float64) for _ in range(3)
    )
    total = torch.zeros_like(maps.factor, dtype=torch.float64)
    for rows in maps.chunks():
        squares = rows.square()
        mean += rows.sum(-2, dtype=torch.float64)
        square += squares.sum(-2, dtype=torch.float64)
        units += (squares.sum(-1, keepdim=True).rsqrt().mT @ rows).squeeze(-2)
        total += (rows - centre).square().sum((-2, -1), dtype=torch.float64)
    n = maps.queries
    present = torch.full_like(total, n)
    return Sums(mean / n, square / n, total / (n * maps.keys), centre, units, present)


def _by_moments(maps: Factors) -> Sums:
    """A = theta phi^T, the factor taken into theta.

    mean_i A_ij = mean(theta) . phi_j; mean_i A_ij^2 = phi_j^T S phi_j with S = theta^T theta / n;
    mean_ij A_ij^2 = tr(S R) with R = phi^T phi / keys; |A_i|^2 = keys theta_i^T R theta_i.
    """
    theta, phi = maps.theta.double() * maps.factor.double()[..., None, None], maps.phi.double()
    s, r = theta.mT @ theta / maps.queries, phi.mT @ phi / maps.keys
    lengths = (((theta @ r) * theta).sum(-1, keepdim=True) * maps.keys).clamp(min=0).sqrt()
    present = lengths > 0
    units = torch.where(present, theta / torch.where(present, lengths, 1), 0)
    return Sums(
        column_mean=(theta.mean(-2, keepdim=True) @ phi.mT).squeeze(-2),
        column_square=((phi @ s) * phi).sum(-1).clamp(min=0),
        square=(s * r).sum((-2, -1)),
        centre=0.0,
        unit_rows=(units.sum(-2, keepdim=True) @ phi.mT).squeeze(-2),
        present_rows=present.sum((-2, -1)).double(),
    )
