"""Modules over `scalednl.ops`: the non-local blocks and the position encoding."""

from scalednl.blocks.dimensions import NonLocal1d, NonLocal2d, NonLocal3d
from scalednl.blocks.nonlocal_block import NonLocalBlock
from scalednl.blocks.position import SinusoidalPosition2d

__all__ = ["NonLocal1d", "NonLocal2d", "NonLocal3d", "NonLocalBlock", "SinusoidalPosition2d"]
