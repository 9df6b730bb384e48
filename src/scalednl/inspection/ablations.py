"""What a trained network's test error becomes when the maps of its blocks are replaced.

With a = mean_ij A_ij, the key's main effect k_j = mean_i A_ij - a, the query's main effect
q_i = mean_j A_ij - a and the pair term p_ij the rest, every map is A_ij = a + k_j + q_i + p_ij.

| name | A_ij becomes | y_i becomes |
|---|---|---|
| unchanged | A_ij | y_i |
| column_mean | a + k_j: every query gets the same row | mean_i y_i |
| pair | a + p_ij | y_i - mean_i y_i + (a - q_i) sum_j g_j |
| rank_one | the nearest map of rank one | (A v)_i v . g |
| uniform | a | a sum_j g_j |
| magnitude | A of the lengths of theta and phi | |
| direction | A of the directions of theta and phi | |

`pair` keeps the grand mean a, so that it differs from `uniform` by the pair term alone and that
softmax rows still sum to 1. Weights and batch norm's statistics stay as trained. Only `rank_one` of
softmax forms maps, a few at a time.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.blocks import NonLocalBlock
from scalednl.blocks.folding import add_projected
from scalednl.inspection.capture import attention_factor, embed
from scalednl.inspection.factors import Factors
from scalednl.inspection.singular import rank_one
from scalednl.models.residual import Images, ResidualNetwork
from scalednl.ops.attention import nonlocal_attention
from scalednl.ops.layout import Maps, pixel_rows, rows_to_maps
from scalednl.ops.views import Heads, apply_view, merge_heads, split_heads

Ablation = Literal[
    "unchanged", "column_mean", "pair", "rank_one", "uniform", "magnitude", "direction"
]
MAP_ABLATIONS: tuple[Ablation, ...] = ("unchanged", "column_mean", "pair", "rank_one", "uniform")
VIEW_ABLATIONS: tuple[Ablation, ...] = ("magnitude", "direction")


def ablations_of(model: ResidualNetwork) -> tuple[Ablation, ...]:
    """The ablations that a network has: views only where its blocks were trained with neither."""
    config = model.config
    assert config is not None
    assert config.nonlocal_ is not None
    return MAP_ABLATIONS + (VIEW_ABLATIONS if config.nonlocal_.view == "base" else ())


@torch.no_grad()
def ablated_classes(
    model: ResidualNetwork, images: Images, ablations: Sequence[Ablation]
) -> Float[Tensor, "ablations batch classes"]:
    """Class scores with the maps of all blocks replaced; layers before the blocks run once."""
    assert model.stack is not None
    start = model.before_stack(images)
    found = []
    for name in ablations:
        x = start
        for part in model.stack:
            x = ablate(part, x, name) if isinstance(part, NonLocalBlock) else part(x)
        found.append(model.classify(model.after_stack(x)))
    return torch.stack(found)


@torch.no_grad()
def ablate(block: NonLocalBlock, x: Maps, ablation: Ablation) -> Maps:
    """z = x + norm(out(y)) of a block in evaluation, with its map replaced."""
    if ablation == "unchanged":
        return block(x)
    theta, phi, g = embed(block, x)
    options = block.attention_options()
    if ablation in VIEW_ABLATIONS:
        y = nonlocal_attention(theta, phi, g, **{**options, "view": ablation})
        return add_projected(x, y, block.out, block.norm)
    queries, keys, values = (split_heads(pixel_rows(v), block.heads) for v in (theta, phi, g))
    factors = Factors(
        apply_view(queries, block.view),
        apply_view(keys, block.view),
        attention_factor(block, keys),
        block.attention == "softmax",
    )
    if ablation == "rank_one":
        rows = _rank_one(factors, values)
    elif ablation == "uniform":
        rows = _uniform(factors, values)
    else:
        y = nonlocal_attention(theta, phi, g, **options)
        rows = split_heads(pixel_rows(y), block.heads)
        rows = _column_mean(rows) if ablation == "column_mean" else _pair(rows, factors, values)
    y = rows_to_maps(merge_heads(rows), theta.shape[2:])
    return add_projected(x, y, block.out, block.norm)


def _column_mean(y: Heads) -> Heads:
    return y.mean(-2, keepdim=True).expand_as(y)


def _uniform(maps: Factors, g: Float[Tensor, "batch heads keys width"]) -> Heads:
    mean = maps.row_mean().mean(-1)[..., None, None]
    return (mean * g.sum(-2, keepdim=True)).expand(-1, -1, maps.queries, -1)


def _pair(y: Heads, maps: Factors, g: Float[Tensor, "batch heads keys width"]) -> Heads:
    rows = maps.row_mean()[..., None]
    mean = rows.mean(-2, keepdim=True)
    # a - q_i with q_i = mean_j A_ij - a.
    return y - y.mean(-2, keepdim=True) + (2 * mean - rows) * g.sum(-2, keepdim=True)


def _rank_one(maps: Factors, g: Float[Tensor, "batch heads keys width"]) -> Heads:
    found = rank_one(maps)
    return found.left[..., None] @ (found.right[..., None, :] @ g)
