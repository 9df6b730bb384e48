"""The stack of non-local blocks as in the authors' release: position, then the blocks."""

from collections import OrderedDict

from torch import nn

from scalednl.blocks import NonLocal2d, SinusoidalPosition2d
from scalednl.config import NonLocalConfig


def make_stack(
    channels: int, config: NonLocalConfig, position: bool | None = None
) -> nn.Sequential | None:
    """The blocks of `config` for maps of `channels` channels; None where there is nothing to do.

    `position` None adds the encoding where there are blocks; True with no blocks is the control
    that has the encoding alone.
    """
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    if position or (position is None and config.blocks):
        parts["position"] = SinusoidalPosition2d()
    for index in range(config.blocks):
        parts[str(index)] = NonLocal2d(channels, **config.block_options())
    return nn.Sequential(parts) if parts else None
