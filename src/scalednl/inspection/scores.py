"""Numbers for what people see in attention maps, each of one map A (queries i, keys j).

Every function takes any number of maps and returns one float64 number for each. Without softmax all
follow from matrices of d x d, d being the channels of a head, and no map is formed. With softmax
the maps are formed once, a few at a time.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from scalednl.inspection.factors import Factors
from scalednl.inspection.singular import iterated, rank_one

CONSTANT = 1e-6
"""Standard deviation, relative to the size of the numbers, below which they count as equal"""
TOP_SHARE = 100
"""`top_keys_share` and `long_keys_share` count one key in so many, and at least one"""

Score = Float[Tensor, "*maps"]
PerKey = Float[Tensor, "*maps keys"]
Vectors = Float[Tensor, "*maps n"]
SOFTMAX_ONLY = ("top_keys_share", "effective_keys", "effective_key_share")
"""Scores that weights with signs do not have"""


def score_maps(maps: Factors) -> dict[str, Score]:
    """All scores by name; NaN for a map whose numbers are not finite.

    A map that is no product of embeddings has the scores of maps alone, not those of logits.
    """
    finite = maps.finite()
    maps = replace(
        maps,
        theta=torch.where(finite[..., None, None], maps.theta, 0),
        phi=torch.where(finite[..., None, None], maps.phi, 0),
        factor=torch.where(finite, maps.factor, 0),
    )
    share = key_share(maps)
    of_map = _softmax_scores(maps) if maps.softmax else _linear_scores(maps, share)
    scores = {"vertical_share": of_map.pop("vertical_share")}
    if maps.is_product:
        length, cosine = unary_ranks(maps)
        scores = {"key_share": share, **scores, "length_rank": length, "cosine_rank": cosine}
        scores["long_keys_share"] = of_map.pop("long_keys_share")
        scores["query_angles"] = query_angles(maps)
    else:
        # phi are no keys here, and have no lengths.
        del of_map["long_keys_share"]
    scores |= of_map
    return {name: torch.where(finite, score, torch.nan) for name, score in scores.items()}


def key_share(maps: Factors) -> Score:
    """V / (V + P) of the logits l_ij = theta_i . phi_j, before any softmax.

    V = Var_j(mean(theta) . phi_j) is the variance of the unary term, which depends on the key
    alone, and P = tr(Cov(theta) Cov(phi)) that of the pairwise term. The third term of l_ij depends
    on the query alone; softmax does not see it, so it is left out. Equal embeddings have equal
    shares under every attention, and a vector added to all keys changes nothing. 0 where both are
    0.
    """
    theta, phi = maps.theta.double(), maps.phi.double()
    sizes = theta.square().sum(-1).mean(-1) * phi.square().sum(-1).mean(-1)
    mean = theta.mean(-2, keepdim=True)
    centred = phi - phi.mean(-2, keepdim=True)
    unary = (mean @ centred.mT).square().mean((-2, -1))
    pair = (_covariance(theta) * _covariance(phi)).sum((-2, -1)).clamp(min=0)
    return _share(unary, unary + pair, CONSTANT**2 * sizes)


def unary_ranks(maps: Factors) -> tuple[Score, Score]:
    """`length_rank` and `cosine_rank`: what the unary term mean(theta) . phi_j correlates with.

    Spearman's rank correlation over keys j of the unary term with |phi_j - mean(phi)|, and with
    cos(phi_j - mean(phi), mean(theta)). 0 where the unary term or the other one is constant.
    """
    theta, phi = maps.theta.double(), maps.phi.double()
    mean = theta.mean(-2, keepdim=True)
    centred = phi - phi.mean(-2, keepdim=True)
    unary = (mean @ centred.mT).squeeze(-2)
    lengths = centred.norm(dim=-1)
    size = phi.square().sum(-1).mean(-1).sqrt()
    present = lengths > CONSTANT * size[..., None]
    longest = mean.norm(dim=-1)
    products = torch.where(longest > 0, longest, 1) * torch.where(present, lengths, 1)
    # Rounded, because ranks would order equal cosines by their rounding errors.
    cosines = torch.where(present, unary / products, 0).round(decimals=9)
    floor = CONSTANT * theta.square().sum(-1).mean(-1).sqrt() * size
    varies = unary.std(-1, correction=0) > floor
    ranks = [
        torch.where(
            varies & (other.std(-1, correction=0) > CONSTANT * scale),
            rank_correlation(unary, other),
            0,
        )
        for other, scale in ((lengths, size), (cosines, 1))
    ]
    return ranks[0], ranks[1]


def key_lengths(phi: Float[Tensor, "*maps keys seen"]) -> PerKey:
    """|phi_j - mean(phi)|: softmax does not see what all keys share."""
    wide = phi.double()
    return (wide - wide.mean(-2, keepdim=True)).norm(dim=-1)


def long_keys_share(lengths: PerKey, energy: PerKey) -> Score:
    """How much of what differs between keys is in the longest ones, 1 in 100.

    The energy of key j is the sum over queries of B_ij^2, B_ij = A_ij - mean_j(A_ij). 0 where no
    key differs from another.
    """
    longest = lengths.topk(max(1, lengths.shape[-1] // TOP_SHARE)).indices
    total = energy.sum(-1)
    return _share(energy.gather(-1, longest).sum(-1), total, torch.zeros_like(total))


def query_angles(maps: Factors) -> Score:
    """1 - |mean_i theta_i / |theta_i||: 0 if all queries point one way, 1 if they cancel out.

    Queries of length 0 have no angle and are left out; 0 where all are 0.
    """
    theta = maps.theta.double()
    lengths = theta.norm(dim=-1, keepdim=True)
    present = lengths > 0
    units = torch.where(present, theta / torch.where(present, lengths, 1), 0)
    count = present.sum((-2, -1))
    mean = units.sum(-2).norm(dim=-1) / count.clamp(min=1)
    return torch.where(count > 0, 1 - mean, 0).clamp(0, 1)


def _linear_scores(maps: Factors, share: Score) -> dict[str, Score]:
    """Scores of maps without softmax, their own logits: the key's main effect is the unary term.

    A row without its mean is A_i = f theta_i . (phi_j - mean(phi)), of length
    |A_i|^2 = f^2 keys theta_i^T Cov(phi) theta_i.
    """
    wide = maps.double()
    theta, phi = wide.theta * wide.factor[..., None, None], wide.phi
    centred = phi - phi.mean(-2, keepdim=True)
    square, size = (
        ((theta @ (keys.mT @ keys)) * theta).sum(-1, keepdim=True).clamp(min=0)
        for keys in (centred, phi)
    )
    present = square > CONSTANT**2 * size
    units = torch.where(present, theta / torch.where(present, square, 1).sqrt(), 0)
    total = (units.sum(-2, keepdim=True) @ centred.mT).squeeze(-2)
    energy = ((centred @ (theta.mT @ theta)) * centred).sum(-1).clamp(min=0)
    return {
        "vertical_share": share,
        "long_keys_share": long_keys_share(key_lengths(phi), energy),
        "query_dependence": _dependence(total, present.sum((-2, -1))),
        "rank_one_energy": rank_one(wide.as_product()).energy,
    }


def _softmax_scores(maps: Factors) -> dict[str, Score]:
    parts = [_of_softmax_maps(group.complete(), group.phi) for group in maps.groups()]
    return {
        name: torch.cat([p[name] for p in parts]).reshape(maps.factor.shape) for name in parts[0]
    }


def _of_softmax_maps(
    a: Float[Tensor, "maps queries keys"], phi: Float[Tensor, "maps keys seen"]
) -> dict[str, Float[Tensor, "maps"]]:
    """Scores of maps whose rows sum to 1, so that they have no main effect of the query.

    - `vertical_share`: Var_j(mean_i A_ij) / Var_ij(A_ij).
    - `long_keys_share`: as `long_keys_share` defines it, with mean_j(A_ij) = 1 / keys.
    - `top_keys_share`: the largest column sums, 1 key in 100 and at least one, over all attention.
    - `effective_keys`: mean over queries of exp(-sum_j A_ij ln A_ij); the share is that over keys.
    """
    keys = a.shape[-1]
    columns = a.mean(-2, dtype=torch.float64)
    centred = a - 1 / keys
    squares = centred.square()
    variance = squares.mean((-2, -1), dtype=torch.float64) - (columns.mean(-1) - 1 / keys) ** 2
    lengths = squares.sum(-1, keepdim=True).sqrt()
    present = lengths > CONSTANT * a.norm(dim=-1, keepdim=True)
    units = torch.where(present, 1 / torch.where(present, lengths, 1), 0)
    total = (units.mT @ centred).squeeze(-2).double()
    top = columns.topk(max(1, keys // TOP_SHARE)).values.sum(-1) / columns.sum(-1)
    # xlogy(0, 0) is 0, as the limit of a ln a is.
    effective = (-torch.xlogy(a, a).sum(-1)).exp().mean(-1, dtype=torch.float64)
    floor = torch.full_like(variance, (CONSTANT / keys) ** 2)
    return {
        "vertical_share": _share(columns.var(-1, correction=0), variance, floor),
        "long_keys_share": long_keys_share(key_lengths(phi), squares.sum(-2, dtype=torch.float64)),
        "query_dependence": _dependence(total, present.sum((-2, -1))),
        "rank_one_energy": iterated(a).energy.double(),
        "top_keys_share": top,
        "effective_keys": effective,
        "effective_key_share": effective / keys,
    }


def _dependence(total: PerKey, counted: Int[Tensor, "*maps"]) -> Score:
    """Mean over pairs of different queries of (1 - cos(A_i, A_k)) / 2, every row less its mean.

    With r_i the centred rows at length 1 and `total` their sum, the mean cosine over pairs is
    (|total|^2 - n) / (n (n - 1)). Constant rows have no shape and are left out; 0 where fewer than
    two are left.
    """
    count = counted.double()
    pairs = (count * (count - 1)).clamp(min=1)
    cosine = (total.square().sum(-1) - count) / pairs
    return torch.where(count > 1, (1 - cosine) / 2, 0).clamp(0, 1)


def _covariance(vectors: Float[Tensor, "*maps n seen"]) -> Float[Tensor, "*maps seen seen"]:
    centred = vectors - vectors.mean(-2, keepdim=True)
    return centred.mT @ centred / vectors.shape[-2]


def _share(part: Score, total: Score, floor: Score) -> Score:
    present = total > floor
    return torch.where(present, part / torch.where(present, total, 1), 0).clamp(0, 1)


def ranks(values: Vectors) -> Vectors:
    """Ranks from 1; equal values share the mean of their ranks."""
    values = values.contiguous()
    ordered = values.sort(-1).values
    below = torch.searchsorted(ordered, values)
    not_above = torch.searchsorted(ordered, values, right=True)
    return (below + not_above + 1).to(values.dtype) / 2


def rank_correlation(first: Vectors, second: Vectors) -> Score:
    """Spearman's: Pearson's correlation of the ranks; 0 where either vector is constant."""
    a, b = (r - r.mean(-1, keepdim=True) for r in (ranks(first), ranks(second)))
    sizes = a.norm(dim=-1) * b.norm(dim=-1)
    product = (a * b).sum(-1)
    return torch.where(sizes > 0, product / torch.where(sizes > 0, sizes, 1), 0).clamp(-1, 1)
