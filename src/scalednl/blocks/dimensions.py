"""The non-local block over sequences, images and videos."""

from scalednl.blocks.forward import POOL_KERNELS
from scalednl.blocks.nonlocal_block import NonLocalBlock


class NonLocal1d(NonLocalBlock):
    """A non-local block over (batch, channels, length)."""

    dims = 1
    pool_kernel = POOL_KERNELS[1]


class NonLocal2d(NonLocalBlock):
    """A non-local block over (batch, channels, height, width)."""

    dims = 2
    pool_kernel = POOL_KERNELS[2]


class NonLocal3d(NonLocalBlock):
    """A non-local block over (batch, channels, time, height, width); keys pool in space only."""

    dims = 3
    pool_kernel = POOL_KERNELS[3]


for _block in (NonLocal1d, NonLocal2d, NonLocal3d):
    _block.__doc__ = f"{_block.__doc__}\n\n    {NonLocalBlock.__doc__}"
