"""The stack of non-local blocks as in the authors' release: position, then the blocks."""

from collections import OrderedDict

from torch import nn

from scalednl.blocks import NonLocal1d, NonLocal2d, NonLocal3d, SinusoidalPosition2d
from scalednl.config import BlockConfig

BLOCKS = (NonLocal1d, NonLocal2d, NonLocal3d)
"""By the number of spatial axes"""


def make_stack(
    channels: int, block: BlockConfig, count: int, position: bool | None = None
) -> nn.Sequential | None:
    """`count` blocks for maps of `channels` channels; None where there is nothing to do.

    `position` None adds the encoding where there are blocks; True with no blocks is the control
    that has the encoding alone.
    """
    parts = stack_parts(channels, block, count, position)
    return nn.Sequential(parts) if parts else None


def stack_parts(
    channels: int, block: BlockConfig, count: int, position: bool | None = None, dims: int = 2
) -> "OrderedDict[str, nn.Module]":
    """The modules of a stack by name, for maps of `dims` spatial axes."""
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    if position or (position is None and count):
        parts["position"] = SinusoidalPosition2d()
    for index in range(count):
        parts[str(index)] = BLOCKS[dims - 1](channels, **block.as_options())
    return parts
