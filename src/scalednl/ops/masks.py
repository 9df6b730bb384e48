"""Pixels that count and pixels that do not exist: what masks do to maps, sums and means.

A mask is (batch, *space) and True at pixels that exist. What stands at the others never enters a
sum, not even if it is NaN: maps are filled with zeros there before anything is computed from them.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import forward_ad

from scalednl.ops.layout import Maps, Rows, accumulation_dtype, pixel_rows, rows_to_maps

Exist = Bool[Tensor, "batch pixels 1"]
"""Which pixel rows exist"""
Mask = Bool[Tensor, "batch *space"]
Count = int | Float[Tensor, " batch"]
"""Pixels of each image: one number for all, or, with a mask, one per image"""


def check_mask(name: str, mask: object, maps: Tensor) -> None:
    """Raise unless `mask` has one truth value for every pixel of the maps."""
    shape = (maps.shape[0], *maps.shape[2:])
    if not isinstance(mask, Tensor):
        raise ValueError(f"{name} must be a bool tensor, but got a {type(mask).__name__}")
    if mask.dtype != torch.bool:
        raise ValueError(
            f"{name} must be bool, True at pixels that exist, but got {mask.dtype}: "
            f"pass {name} > 0 or {name}.bool()"
        )
    if mask.dim() != len(shape) or any(a != b for a, b in zip(mask.shape, shape, strict=True)):
        raise ValueError(
            f"{name} must be (batch, *space) = {tuple(shape)} for maps of shape "
            f"{tuple(maps.shape)}, but got {tuple(mask.shape)}"
        )
    if mask.device != maps.device:
        raise ValueError(f"{name} is on {mask.device}, but the maps are on {maps.device}")


def shown(maps: Maps, mask: Mask | None) -> Maps:
    """The maps with zeros outside the mask."""
    if mask is None:
        return maps
    return rows_to_maps(shown_rows(pixel_rows(maps), pixel_column(mask)), maps.shape[2:])


def shown_rows(rows: Rows, exist: Exist) -> Rows:
    """The rows with zeros where no pixel exists.

    torch.where and masked_fill do not use vector units where the mask is the same for all channels,
    and cost eight times as much as the pass over memory; a product would keep NaN. So the bits of
    the numbers are masked, where nothing but autograd looks on.
    """
    transformed = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    if transformed or forward_ad.unpack_dual(rows).tangent is not None:
        return torch.where(exist, rows, 0)
    return _mask_bits(rows, exist)


class _MaskBits(torch.autograd.Function):
    """Zeros where no pixel exists, forward and backward."""

    @staticmethod
    def forward(ctx: Any, rows: Rows, exist: Exist) -> Rows:
        ctx.save_for_backward(exist)
        kind = _INTEGERS[rows.element_size()]
        return (rows.view(kind) & -exist.to(kind)).view(rows.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Rows) -> tuple[Rows, None]:
        return shown_rows(grad, ctx.saved_tensors[0]), None


_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_mask_bits: Callable[..., Rows] = _MaskBits.apply


def pixel_column(mask: Mask) -> Exist:
    """The mask beside pixel rows."""
    return mask.flatten(1)[..., None]


def count_pixels(mask: Mask, dtype: torch.dtype) -> Float[Tensor, " batch"]:
    """How many pixels of each image exist."""
    return mask.flatten(1).sum(1).to(accumulation_dtype(dtype))
