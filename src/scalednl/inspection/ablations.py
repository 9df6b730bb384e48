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
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from scalednl.blocks import NonLocalBlock
from scalednl.blocks.checks import check_call
from scalednl.blocks.folding import add_projected
from scalednl.inspection.capture import BlockAttention, Keys, nonlocal_blocks, observe
from scalednl.inspection.factors import Factors
from scalednl.inspection.singular import rank_one
from scalednl.models.residual import Images, ResidualNetwork
from scalednl.ops.layout import Maps
from scalednl.ops.views import Heads
from scalednl.options import check_name

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

    def replaced(
        block: nn.Module, inputs: tuple[Maps, ...], named: dict[str, Tensor], _: Maps
    ) -> Maps | None:
        assert isinstance(block, NonLocalBlock)
        given = dict(named)
        x = inputs[0] if inputs else given.pop("x")
        return None if ablation == "unchanged" else ablate(block, x, ablation, **given)

    blocks = nonlocal_blocks(model).values()
    handles = [block.register_forward_hook(replaced, with_kwargs=True) for block in blocks]
    try:
        classes: Tensor = model(images)
    finally:
        for handle in handles:
            handle.remove()
    return classes


@torch.no_grad()
def ablate(
    block: NonLocalBlock,
    x: Maps,
    ablation: Ablation,
    *,
    mask: Tensor | None = None,
    keys: Tensor | None = None,
    key_mask: Tensor | None = None,
) -> Maps:
    """z = x + norm(out(y)) of a block in evaluation, with its map replaced."""
    check_name("ablation", ablation, get_args(Ablation))
    check_call(block, x, mask, keys, key_mask)
    if ablation == "unchanged" or not len(x):
        return block(x, mask=mask, keys=keys, key_mask=key_mask)
    seen = observe(block, x, mask=mask, keys=keys, key_mask=key_mask)
    if seen.mask is None and seen.key_mask is None:
        y = torch.cat([_mixed(part, ablation) for part in seen.parts()])
    else:
        # Images of different numbers of pixels have different maps.
        y = torch.cat([_mixed_where(seen, image, ablation) for image in range(len(x))])
    z = add_projected(x, seen.maps(y), block.out, block.norm)
    return z if mask is None else torch.where(mask[:, None], z, x)


def _mixed(seen: BlockAttention, ablation: Ablation) -> Heads:
    """y = A g with the map replaced; every pixel exists."""
    if ablation in VIEW_ABLATIONS:
        return seen.attended(view=ablation)
    if ablation == "rank_one":
        return _rank_one(seen.factors.as_product(), seen.g)
    if ablation == "uniform":
        return _uniform(seen.factors, seen.g)
    y = seen.attended()
    if ablation == "column_mean":
        return y.mean(-2, keepdim=True).expand_as(y)
    return _pair(y, seen.factors, seen.g)


def _mixed_where(seen: BlockAttention, image: int, ablation: Ablation) -> Heads:
    """The same for one image of a call with masks; 0 at queries that do not exist."""
    y = torch.zeros_like(seen.theta[image : image + 1])
    one = seen.alone(image)
    if one.theta.shape[2] and one.phi.shape[2]:
        exist = slice(None) if seen.mask is None else seen.mask[image]
        y[:, :, exist] = _mixed(one, ablation).to(y.dtype)
    return y


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
