"""The stack of non-local blocks as in the authors' release: position, then the blocks."""

from collections import OrderedDict

from torch import nn

from scalednl.blocks import NonLocal1d, NonLocal2d, NonLocal3d, SinusoidalPosition2d
from scalednl.config import NonLocalConfig

BLOCKS = (NonLocal1d, NonLocal2d, NonLocal3d)
"""By the number of spatial axes"""


def make_stack(
    channels: int, config: NonLocalConfig, position: bool | None = None
) -> nn.Sequential | None:
    """The blocks of `config` for maps of `channels` channels; None where there is nothing to do.

    `position` None adds the encoding where there are blocks; True with no blocks is the control
    that has the encoding alone.
    """
    parts = stack_parts(channels, config, position)
    return nn.Sequential(parts) if parts else None


def stack_parts(
    channels: int, config: NonLocalConfig, position: bool | None = None, dims: int = 2
) -> "OrderedDict[str, nn.Module]":
    """The modules of a stack by name, for maps of `dims` spatial axes."""
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    if position or (position is None and config.blocks):
        parts["position"] = SinusoidalPosition2d()
    for index in range(config.blocks):
        parts[str(index)] = BLOCKS[dims - 1](channels, **config.block_options())
    return parts
