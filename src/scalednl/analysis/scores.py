"""Numbers for what people see in attention maps, each of one map A (queries i, keys j).

Without softmax, all but the effective keys follow from matrices of d x d, d the channels of a head;
else rows are formed some at a time. Memory is linear in the pixels either way, and sums are taken
in float64. Every function takes any number of maps and gives one number for each.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.analysis.factors import Factors, KeyMean

Score = Float[Tensor, "*maps"]
Norms = Float[Tensor, "*maps keys"]
CONSTANT = 1e-6
"""Standard deviation, relative to the size of the numbers, below which they count as equal"""


def key_share(maps: Factors) -> Score:
    """Var_j(mean_i A_ij) / Var_ij(A_ij): the share of the variance that the key alone explains.

    1 is a map of pure vertical lines: all queries have the same row. A constant map has no
    variance and no lines: 0.
    """
    columns, squares = _column_mean(maps), _mean_square(maps)
    mean = columns.mean(-1)
    # Of softmax the mean is known exactly, and is taken out before squaring.
    around = _centre(maps)
    total = squares - (mean - around) ** 2
    scale = squares + around**2
    return _ratio(columns.var(-1, correction=0), total, CONSTANT**2 * scale).clamp(0, 1)


def query_dependence(maps: Factors) -> Score:
    """Mean over pairs of different queries of (1 - cos(A_i, A_k)) / 2: how rows differ.

    0: every query looks at the same; 1/2: rows are orthogonal on average; up to 1 for opposite
    ones, which only signed attention has. With r_i = A_i / |A_i| the mean cosine over the pairs is
    (|sum_i r_i|^2 - sum_i |r_i|^2) / (n (n - 1)). A row of zeros has cosine 0 with all others.
    """
    if maps.queries == 1:
        return torch.zeros_like(maps.factor, dtype=torch.float64)
    total, lengths = _unit_row_sum(maps)
    pairs = maps.queries * (maps.queries - 1)
    cosine = (total.square().sum(-1) - lengths) / pairs
    return ((1 - cosine) / 2).clamp(0, 1)


def norm_correlation_mean(maps: Factors, norms: Norms) -> Score:
    """Pearson correlation over keys j of mean_i A_ij with |phi_j|: the paper's claim for softmax.

    0 where either is constant.
    """
    return _correlation(_column_mean(maps), norms)


def norm_correlation_rms(maps: Factors, norms: Norms) -> Score:
    """Pearson correlation over keys j of sqrt(mean_i A_ij^2) with |phi_j|.

    Signed attention may average out over queries, its size cannot. Without softmax that size is
    f |phi_j| sqrt(e_j^T S e_j), S the second moment of theta and e_j the direction of phi_j: in
    proportion to |phi_j| by construction, but for the direction.
    """
    return _correlation(_column_square(maps).sqrt(), norms)


def effective_keys(maps: Factors) -> Score:
    """Mean over queries of exp(-sum_j p_ij ln p_ij), p_ij = |A_ij| / sum_j |A_ij|.

    How many keys a query looks at, if it looked at all of them equally: from 1 to their number. A
    row of zeros looks at 0.
    """
    total = torch.zeros_like(maps.factor, dtype=torch.float64)
    for rows in maps.chunks():
        sizes = rows if maps.softmax else rows.abs()
        sums = sizes.sum(-1)
        # ln of 0 meets a 0 before it: xlogy is 0 there.
        entropy = sums.log() - torch.xlogy(sizes, sizes).sum(-1) / sums
        total += torch.where(sums > 0, entropy.exp(), 0).sum(-1, dtype=torch.float64)
    return total / maps.queries


def effective_key_share(maps: Factors) -> Score:
    """The effective keys as a share of all keys: 1 looks at everything alike."""
    return effective_keys(maps) / maps.keys


def score_maps(maps: Factors, norms: Norms) -> dict[str, Score]:
    """All scores by name; `norms` are |phi_j| before any view."""
    effective = effective_keys(maps)
    return {
        **{name: score(maps) for name, score in OF_MAP.items()},
        **{name: score(maps, norms) for name, score in OF_MAP_AND_NORMS.items()},
        "effective_keys": effective,
        "effective_key_share": effective / maps.keys,
    }


OF_MAP: Mapping[str, Callable[[Factors], Tensor]] = {
    "key_share": key_share,
    "query_dependence": query_dependence,
}
OF_MAP_AND_NORMS: Mapping[str, Callable[[Factors, Tensor], Tensor]] = {
    "norm_correlation_mean": norm_correlation_mean,
    "norm_correlation_rms": norm_correlation_rms,
}


def _column_mean(maps: Factors) -> KeyMean:
    """mean_i A_ij in float64."""
    if maps.softmax:
        return _sum_over_rows(maps, lambda rows: rows.double()) / maps.queries
    mean = maps.theta.mean(-2, keepdim=True, dtype=torch.float64) * _factor(maps)
    return (mean @ maps.phi.double().mT).squeeze(-2)


def _column_square(maps: Factors) -> KeyMean:
    """mean_i A_ij^2 in float64: without softmax f^2 phi_j^T S phi_j, S theta's second moment."""
    if maps.softmax:
        return _sum_over_rows(maps, lambda rows: rows.double().square()) / maps.queries
    phi, moment = maps.phi.double(), _second_moment(maps.theta)
    squares = ((phi @ moment) * phi).sum(-1) * _factor(maps).squeeze(-1).square()
    return squares.clamp(min=0)


def _mean_square(maps: Factors) -> Score:
    """mean_ij (A_ij - c)^2, c as in `_centre`: f^2 tr(S_theta S_phi) without softmax."""
    if maps.softmax:
        centre = _centre(maps)
        sums = _sum_over_rows(maps, lambda rows: (rows.double() - centre).square())
        return sums.mean(-1) / maps.queries
    product = _second_moment(maps.theta) * _second_moment(maps.phi)
    return product.sum((-2, -1)) * maps.factor.double().square()


def _centre(maps: Factors) -> float:
    """The mean of every softmax row, exactly; 0 for others."""
    return 1 / maps.keys if maps.softmax else 0.0


def _unit_row_sum(maps: Factors) -> tuple[KeyMean, Score]:
    """sum_i A_i / |A_i|, and sum_i |A_i / |A_i||^2: the number of rows that are not 0.

    Without softmax |A_i|^2 is f^2 theta_i^T (phi^T phi) theta_i, and the sum that of
    theta_i / |A_i| times phi.
    """
    if maps.softmax:
        total = _sum_over_rows(maps, lambda rows: _unit(rows.double()))
        return total, torch.full_like(maps.factor, maps.queries, dtype=torch.float64)
    theta, phi = maps.theta.double() * _factor(maps), maps.phi.double()
    lengths = ((theta @ (phi.mT @ phi)) * theta).sum(-1, keepdim=True).clamp(min=0).sqrt()
    present = lengths > 0
    units = torch.where(present, theta / torch.where(present, lengths, 1), 0)
    total = units.sum(-2, keepdim=True) @ phi.mT
    return total.squeeze(-2), present.sum((-2, -1)).double()


def _unit(rows: Float[Tensor, "*maps rows keys"]) -> Float[Tensor, "*maps rows keys"]:
    return rows / rows.norm(dim=-1, keepdim=True)


def _second_moment(vectors: Float[Tensor, "*maps n d"]) -> Float[Tensor, "*maps d d"]:
    wide = vectors.double()
    return wide.mT @ wide / vectors.shape[-2]


def _factor(maps: Factors) -> Float[Tensor, "*maps 1 1"]:
    return maps.factor.double()[..., None, None]


def _sum_over_rows(maps: Factors, of: Callable[[Tensor], Tensor]) -> KeyMean:
    total = maps.phi.new_zeros(maps.phi.shape[:-1], dtype=torch.float64)
    for rows in maps.chunks():
        total += of(rows).sum(-2)
    return total


def _correlation(first: KeyMean, second: KeyMean) -> Score:
    a, b = (value.double() for value in (first, second))
    floors = [CONSTANT**2 * value.square().mean(-1) for value in (a, b)]
    a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
    varies = (a.square().mean(-1) > floors[0]) & (b.square().mean(-1) > floors[1])
    product = (a * b).sum(-1) / torch.where(varies, a.norm(dim=-1) * b.norm(dim=-1), 1)
    return torch.where(varies, product, 0)


def _ratio(part: Score, whole: Score, floor: Score) -> Score:
    """part / whole, 0 where the whole is no more than rounding."""
    present = whole > floor
    return torch.where(present, part / torch.where(present, whole, 1), 0)
