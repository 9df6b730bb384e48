"""Numbers for what people see in attention maps, each of one map A (queries i, keys j).

Every function takes any number of maps and gives one number for each, in float64. Memory is linear
in the pixels: see `analysis.sums`.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.analysis.factors import Factors
from scalednl.analysis.sums import PerKey, Score, Sums, sums_of

CONSTANT = 1e-6
"""Standard deviation, relative to the size of the numbers, below which they count as equal"""


def key_share(maps: Factors, sums: Sums | None = None) -> Score:
    """Var_j(mean_i A_ij) / Var_ij(A_ij): the share of the variance that the key alone explains.

    1 is a map of pure vertical lines: all queries have the same row. A constant map has no
    variance and no lines: 0.
    """
    sums = sums or sums_of(maps)
    columns = sums.column_mean
    total = sums.square - (columns.mean(-1) - sums.centre) ** 2
    floor = CONSTANT**2 * (sums.square + sums.centre**2)
    present = total > floor
    share = columns.var(-1, correction=0) / torch.where(present, total, 1)
    return torch.where(present, share, 0).clamp(0, 1)


def query_dependence(maps: Factors, sums: Sums | None = None) -> Score:
    """Mean over pairs of different queries of (1 - cos(A_i, A_k)) / 2: how rows differ.

    0: every query looks at the same; 1/2: rows are orthogonal on average; up to 1 for opposite
    ones, which only signed attention has. With r_i = A_i / |A_i| the mean cosine over the pairs is
    (|sum_i r_i|^2 - sum_i |r_i|^2) / (n (n - 1)). A row of zeros has cosine 0 with all others.
    """
    sums = sums or sums_of(maps)
    pairs = max(1, maps.queries * (maps.queries - 1))
    cosine = (sums.unit_rows.square().sum(-1) - sums.present_rows) / pairs
    distance = ((1 - cosine) / 2).clamp(0, 1)
    return distance if maps.queries > 1 else torch.zeros_like(distance)


def norm_correlation_mean(maps: Factors, norms: PerKey, sums: Sums | None = None) -> Score:
    """Pearson correlation over keys j of mean_i A_ij with |phi_j|: the paper's claim for softmax.

    0 where either is constant.
    """
    return _correlation((sums or sums_of(maps)).column_mean, norms)


def norm_correlation_rms(maps: Factors, norms: PerKey, sums: Sums | None = None) -> Score:
    """Pearson correlation over keys j of sqrt(mean_i A_ij^2) with |phi_j|.

    Signed attention may average out over queries, its size cannot. Without softmax that size is
    f |phi_j| sqrt(e_j^T S e_j), S the second moment of theta and e_j the direction of phi_j: in
    proportion to |phi_j| by construction, but for the direction.
    """
    return _correlation((sums or sums_of(maps)).column_square.sqrt(), norms)


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


def score_maps(maps: Factors, norms: PerKey) -> dict[str, Score]:
    """All scores by name, from two passes over the maps; `norms` are |phi_j| before any view.

    `effective_key_share` is the effective keys over all keys: 1 looks at everything alike. A map
    of numbers that are not finite has no scores: NaN.
    """
    sums, effective = sums_of(maps), effective_keys(maps)
    scores = {
        "key_share": key_share(maps, sums),
        "query_dependence": query_dependence(maps, sums),
        "norm_correlation_mean": norm_correlation_mean(maps, norms, sums),
        "norm_correlation_rms": norm_correlation_rms(maps, norms, sums),
        "effective_keys": effective,
        "effective_key_share": effective / maps.keys,
    }
    sound = maps.factor.isfinite()
    for vectors in (maps.theta, maps.phi):
        sound = sound & vectors.isfinite().flatten(-2).all(-1)
    return {name: torch.where(sound, score, torch.nan) for name, score in scores.items()}


def _correlation(first: PerKey, second: Float[Tensor, "*maps keys"]) -> Score:
    a, b = (value.double() for value in (first, second))
    floors = [CONSTANT**2 * value.square().mean(-1) for value in (a, b)]
    a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
    varies = (a.square().mean(-1) > floors[0]) & (b.square().mean(-1) > floors[1])
    product = (a * b).sum(-1) / torch.where(varies, a.norm(dim=-1) * b.norm(dim=-1), 1)
    return torch.where(varies, product, 0)
