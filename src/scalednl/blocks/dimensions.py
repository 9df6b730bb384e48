"""The non-local block over sequences, images and videos."""

from scalednl.blocks.nonlocal_block import NonLocalBlock
from scalednl.config import BlockConfig


class NonLocal1d(NonLocalBlock):
    """A non-local block over (batch, channels, length)."""

    dims = 1


class NonLocal2d(NonLocalBlock):
    """A non-local block over (batch, channels, height, width)."""

    dims = 2


class NonLocal3d(NonLocalBlock):
    """A non-local block over (batch, channels, time, height, width)."""

    dims = 3


_options = (BlockConfig.__doc__ or "").partition("Args:")[2].strip()
for _block in (NonLocal1d, NonLocal2d, NonLocal3d):
    _block.__doc__ = (
        f"{_block.__doc__}\n\n    {NonLocalBlock.__doc__}\n    Options:\n        {_options}\n"
    )
