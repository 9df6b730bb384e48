"""Pixel rows: every map as a batch of (pixels x channels) matrices, in whatever memory it lies.

`x.flatten(2).transpose(1, 2)` is a view for NCHW and for channels_last memory alike. The products
below keep the layout of the rows they are given, so that a channels_last map comes out
channels_last and an NCHW map NCHW, without a copy of either.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

Maps = Float[Tensor, "batch channels *space"]
Rows = Float[Tensor, "batch pixels channels"]


def pixel_rows(x: Maps) -> Rows:
    """View `x` as one row of channels per pixel."""
    return x.flatten(2).transpose(1, 2)


def rows_to_maps(rows: Rows, space: Sequence[int]) -> Maps:
    """Undo `pixel_rows` for the given spatial sizes."""
    return rows.transpose(1, 2).unflatten(2, space)


def dense_rows(rows: Rows) -> Rows:
    """Copy rows that no matrix product can read in place, such as an expanded gradient."""
    return rows if 1 in rows.stride()[1:] else rows.contiguous()


def mix_rows(
    rows: Rows, matrix: Float[Tensor, "batch out channels"]
) -> Float[Tensor, "batch pixels out"]:
    """Apply one matrix per image to every pixel: row_i -> matrix row_i, in the rows' layout."""
    if rows.stride(-1) == 1:
        return torch.bmm(rows, matrix.mT)
    return torch.bmm(matrix, rows.mT).mT


def add_mixed_(target: Rows, rows: Rows, matrix: Float[Tensor, "batch out channels"]) -> Rows:
    """`target += mix_rows(rows, matrix)` in place, as the accumulator of the product."""
    if target.stride(-1) == 1:
        target.baddbmm_(rows, matrix.mT)
    else:
        target.mT.baddbmm_(matrix, rows.mT)
    return target
