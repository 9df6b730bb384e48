"""What is left of a trained block when attention sees only length, or only direction."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.analysis.capture import BlockAttention
from scalednl.models.registry import create_model
from scalednl.models.residual import ResidualNetwork
from scalednl.ops.attention import nonlocal_attention
from scalednl.ops.layout import Maps, rows_to_maps
from scalednl.ops.options import Order, View
from scalednl.ops.views import merge_heads

PARTS: tuple[View, ...] = ("magnitude", "direction")


def kept_by_view(seen: BlockAttention, view: View) -> Float[Tensor, "batch"]:
    """cos^2(u, u'), u = out(y) with the block's weights and u' the same with theta and phi so seen.

    The share of |u|^2 that c u' explains with the best number c: batch norm would set that number
    anyhow. Over the whole branch of an image, all heads, before batch norm, without out's bias.
    0 where either is 0.
    """
    if seen.block.view != "base":
        raise ValueError(
            f"{seen.name} was trained with view={seen.block.view!r}: what a view keeps is asked of "
            "a block with view='base'"
        )
    whole, part = (branch(seen, name).flatten(1).double() for name in ("base", view))
    product = (whole * part).sum(1).square()
    sizes = whole.square().sum(1) * part.square().sum(1)
    return torch.where(sizes > 0, product / torch.where(sizes > 0, sizes, 1), 0)


@torch.no_grad()
def branch(seen: BlockAttention, view: View) -> Maps:
    """out(y) without its bias, with attention over this view of theta and phi; no map is formed."""
    options = {**seen.block._attention_options(), "view": view}
    maps = [
        rows_to_maps(merge_heads(value), size)
        for value, size in (
            (seen.theta, seen.query_size),
            (seen.phi, seen.key_size),
            (seen.g, seen.key_size),
        )
    ]
    y = nonlocal_attention(*maps, **options)
    dtype = next(seen.block.out.parameters()).dtype
    y = y.to(dtype)
    return seen.block.out(y) - seen.block.out(torch.zeros_like(y[:1]))


def with_view(model: ResidualNetwork, view: View) -> ResidualNetwork:
    """A copy of a network whose every block has this view, with the same weights."""
    config = model.config
    assert config is not None
    assert config.nonlocal_ is not None
    # A view has no gram order, which the network may have been made with.
    order: Order = "fused" if config.nonlocal_.attention == "softmax" else "associative"
    block = replace(config.nonlocal_, view=view, order=order)
    copy = create_model(config.name, config.num_classes, block, config.position)
    copy.load_state_dict(model.state_dict())
    return copy.eval()
