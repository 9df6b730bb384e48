"""The options of a block's attention, with learned and running numbers as they are now."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from scalednl.ops.layout import accumulation_dtype

if TYPE_CHECKING:
    from scalednl.blocks.nonlocal_block import NonLocalBlock


def attention_options(block: "NonLocalBlock") -> dict[str, Any]:
    """The keyword arguments with which `scalednl.functional` computes a block's attention."""
    return {
        "heads": block.heads,
        "attention": block.attention,
        "view": block.view,
        "scale": block.scale,
        "softmax_scale": _temperature(block),
        "center": block.center,
        "reference_pixels": _reference_pixels(block),
    }


def _temperature(block: "NonLocalBlock") -> float | Tensor | None:
    if block.log_softmax_scale is not None:
        return block.log_softmax_scale.exp()
    if block.softmax_scale == "channels":
        return block.channels**-0.5
    if isinstance(block.softmax_scale, (int, float)):
        return float(block.softmax_scale)
    return None


def _reference_pixels(block: "NonLocalBlock") -> float | Tensor | None:
    """R of the attention now; None is the number of keys."""
    running = block.running_pixels
    if running is None:
        return None if block.reference_pixels is None else float(block.reference_pixels)
    # In training the reference is the map itself, as batch norm's statistics are its own.
    if block.training:
        return None
    return running.to(accumulation_dtype(block.dtype or torch.float32))
