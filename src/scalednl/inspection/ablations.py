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
from torch import Tensor, nn

from scalednl.blocks import NonLocalBlock
from scalednl.blocks.folding import add_projected
from scalednl.inspection.capture import Keys, nonlocal_blocks, observe
from scalednl.inspection.factors import Factors
from scalednl.inspection.singular import rank_one
from scalednl.models.residual import Images, ResidualNetwork
from scalednl.ops.layout import Maps
from scalednl.ops.views import Heads

Ablation = Literal[
    "unchanged", "column_mean", "pair", "rank_one", "uniform", "magnitude", "direction"
]
MAP_ABLATIONS: tuple[Ablation, ...] = ("unchanged", "column_mean", "pair", "rank_one", "uniform")
VIEW_ABLATIONS: tuple[Ablation, ...] = ("magnitude", "direction")


def ablations_of(model: nn.Module) -> tuple[Ablation, ...]:
    """The ablations that a network has: views only where its blocks were trained with neither."""
    is_base = all(block.view == "base" for block in nonlocal_blocks(model).values())
    return MAP_ABLATIONS + (VIEW_ABLATIONS if is_base else ())


@torch.no_grad()
def ablated_classes(
    model: nn.Module, images: Images, ablations: Sequence[Ablation]
) -> Float[Tensor, "ablations batch classes"]:
    """Class scores with the maps of all blocks replaced.

    In networks of `create_model` the layers before the blocks run once.
    """
    if not isinstance(model, ResidualNetwork) or model.stack is None:
        return torch.stack([_ablated(model, images, name) for name in ablations])
    start = model.before_stack(images)
    found = []
    for name in ablations:
        x = start
        for part in model.stack:
            x = ablate(part, x, name) if isinstance(part, NonLocalBlock) else part(x)
        found.append(model.classify(model.after_stack(x)))
    return torch.stack(found)


def _ablated(
    model: nn.Module, images: Images, ablation: Ablation
) -> Float[Tensor, "batch classes"]:
    """Class scores of any network, the output of every block replaced by a hook."""

    def replaced(block: nn.Module, inputs: tuple[Maps, ...], _: Maps) -> Maps | None:
        assert isinstance(block, NonLocalBlock)
        return None if ablation == "unchanged" else ablate(block, inputs[0], ablation)

    blocks = nonlocal_blocks(model).values()
    handles = [block.register_forward_hook(replaced) for block in blocks]
    try:
        classes: Tensor = model(images)
    finally:
        for handle in handles:
            handle.remove()
    return classes


@torch.no_grad()
def ablate(block: NonLocalBlock, x: Maps, ablation: Ablation) -> Maps:
    """z = x + norm(out(y)) of a block in evaluation, with its map replaced."""
    if ablation == "unchanged":
        return block(x)
    seen = observe(block, x)
    parts = [len(part.theta) for part in seen.parts()]
    if len(parts) > 1:
        return torch.cat([ablate(block, part, ablation) for part in x.split(parts)])
    if ablation in VIEW_ABLATIONS:
        y = seen.attended(view=ablation)
    elif ablation == "rank_one":
        y = _rank_one(seen.factors.as_product(), seen.g)
    elif ablation == "uniform":
        y = _uniform(seen.factors, seen.g)
    elif ablation == "column_mean":
        y = seen.attended()
        y = y.mean(-2, keepdim=True).expand_as(y)
    else:
        y = _pair(seen.attended(), seen.factors, seen.g)
    return add_projected(x, seen.maps(y), block.out, block.norm)


def _uniform(maps: Factors, g: Keys) -> Heads:
    mean = maps.row_mean().mean(-1)[..., None, None]
    return (mean * g.sum(-2, keepdim=True)).expand(-1, -1, maps.queries, -1)


def _pair(y: Heads, maps: Factors, g: Keys) -> Heads:
    rows = maps.row_mean()[..., None]
    mean = rows.mean(-2, keepdim=True)
    # a - q_i with q_i = mean_j A_ij - a.
    return y - y.mean(-2, keepdim=True) + (2 * mean - rows) * g.sum(-2, keepdim=True)


def _rank_one(maps: Factors, g: Keys) -> Heads:
    found = rank_one(maps)
    return found.left[..., None] @ (found.right[..., None, :] @ g)
