"""First and second moments of pixels: all that the gram order needs to know of an image.

They are kept about the mean, (N, mean, scatter = sum (x - mean)(x - mean)^T), because the plain
form x x^T loses its digits when a map's mean is much larger than its spread. Two sets of moments
merge exactly, so an image may come in tiles, frames or slabs on several machines.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from scalednl.ops.gram.forward import Matrices, mean_and_scatter, stacked
from scalednl.ops.gram.mixing import KeyMoments, PerImage
from scalednl.ops.layout import Maps, full_precision, per_image, pixel_rows
from scalednl.ops.masks import Count, Mask, check_mask, pixel_column


class Moments:
    """The moments of an image that arrives in tiles, frames or slabs.

    >>> m = Moments()
    >>> for tile in tiles:                      # each (batch, channels, *any size)
    ...     m.update(tile)
    >>> z = block.apply_moments(tile, m)        # exact global attention, tile by tile

    `update` adds the pixels of one tile, with `mask` those that exist, `merge` another Moments,
    `all_reduce` those of the other ranks of a process group. With autograd on, gradients flow
    through all three (and then the graph holds every tile; under `torch.no_grad()` only one C x C
    matrix per image is held).

    Sums are taken in float32 for half-precision tiles, or in `dtype` where one is given.
    """

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        if dtype not in (None, torch.float32, torch.float64):
            raise ValueError(f"Moments(dtype={dtype!r}): use torch.float32, torch.float64 or None")
        self.dtype = dtype
        self.reduced = False
        """Whether these are the moments of all ranks"""
        self.pixels: Count = 0
        """Pixels of each image: one number for all, or one per image where a mask was given"""
        self.mean: PerImage | None = None
        self.scatter: Matrices | None = None

    def update(self, tile: Maps, mask: Mask | None = None) -> "Moments":
        """Add the pixels of a tile, or those of them where `mask`, (batch, *space), is True."""
        is_tensor = isinstance(tile, Tensor)
        if not is_tensor or tile.dim() < 3 or not tile.is_floating_point():
            got = f"a {type(tile).__name__}"
            if is_tensor:
                got = f"{tile.dtype} of shape {tuple(tile.shape)}"
            raise ValueError(
                f"a tile is a floating-point (batch, channels, *space) tensor, but got {got}"
            )
        rows = pixel_rows(tile)
        if not rows.shape[1]:
            raise ValueError(f"a tile needs at least one pixel, but got shape {tuple(tile.shape)}")
        exist = None
        if mask is not None:
            check_mask("mask", mask, tile)
            exist = pixel_column(mask)
        with full_precision(tile):
            # Sums of halves are float32 without a cast before.
            wide = rows if self.dtype is None else rows.to(self.dtype)
            mean, scatter, _, count = mean_and_scatter(wide, exist)
            self._add(count, mean, scatter)
        return self

    def merge(self, other: "Moments") -> "Moments":
        """Add the pixels that another Moments has seen."""
        if other.mean is not None and other.scatter is not None:
            dtype = self.dtype or other.mean.dtype
            self._add(other.pixels, other.mean.to(dtype), other.scatter.to(dtype))
        return self

    def to(self, device: torch.device | str) -> "Moments":
        """Move what was collected to another device, to merge it there."""
        if self.mean is not None and self.scatter is not None:
            self.mean, self.scatter = self.mean.to(device), self.scatter.to(device)
        if isinstance(self.pixels, Tensor):
            self.pixels = self.pixels.to(device)
        return self

    def all_reduce(self, group: "dist.ProcessGroup | None" = None) -> "Moments":
        """Add up the moments of every rank of `group`; each rank must have seen some pixels.

        Backward sums the gradients of the moments over the ranks. The weights' gradients stay
        what each rank's own pixels contribute: their sum over ranks is the one-process gradient.
        """
        if self.mean is None or self.scatter is None:
            raise ValueError("all_reduce before any update: this rank has seen no pixel")
        pixels = self.mean.new_empty(len(self.mean), dtype=torch.float64).copy_(
            torch.as_tensor(self.pixels)
        )
        dist.all_reduce(pixels, group=group)
        # One number again where no rank had a mask, so that nothing changes for them.
        total: Count = pixels.to(self.mean.dtype)
        if len(set(counts := pixels.tolist())) == 1 and not isinstance(self.pixels, Tensor):
            total = int(counts[0])
        mean = _sum_over_ranks(self.mean * _share(self.pixels, total), group)
        apart = self.mean - mean
        scatter = self.scatter + _outer(apart * per_image(self.pixels, 1), apart)
        self.scatter = _sum_over_ranks(scatter, group)
        self.pixels, self.mean, self.reduced = total, mean, True
        return self

    def key_moments(self) -> KeyMoments:
        """These moments as the mixing chain takes them."""
        if self.mean is None or self.scatter is None:
            raise ValueError("these Moments are empty: call update(tile) for every tile first")
        return KeyMoments(self.pixels, self.mean, stacked(self.scatter))

    def _add(self, pixels: Count, mean: PerImage, scatter: Matrices) -> None:
        if self.mean is None or self.scatter is None:
            self.pixels, self.mean, self.scatter = pixels, mean, scatter
            return
        if mean.shape != self.mean.shape:
            raise ValueError(
                f"these Moments hold (batch, channels) = {tuple(self.mean.shape)}, "
                f"but the new pixels are of {tuple(mean.shape)}"
            )
        total = self.pixels + pixels
        apart = mean - self.mean
        weight = _share(pixels, total)
        own = per_image(self.pixels, 1)
        self.scatter = self.scatter + scatter + _outer(apart * (own * weight), apart)
        self.mean = self.mean + apart * weight
        self.pixels = total

    def __repr__(self) -> str:
        if self.mean is None:
            return "Moments(empty)"
        batch, channels = self.mean.shape
        pixels = str(self.pixels)
        if isinstance(self.pixels, Tensor):
            pixels = " to ".join(f"{int(n)}" for n in torch.aminmax(self.pixels))
        return f"Moments({pixels} pixels of {channels} channels, batch {batch})"


class _SumOverRanks(torch.autograd.Function):
    """Sum over the ranks of a group, forward and backward."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, group: "dist.ProcessGroup | None") -> Tensor:
        ctx.group = group
        total = value.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _sum_over_ranks(grad, ctx.group), None


_sum_over_ranks: Callable[..., Tensor] = _SumOverRanks.apply


def _outer(left: PerImage, right: PerImage) -> Matrices:
    return left[:, :, None] * right[:, None]


def _share(part: Count, total: Count) -> float | Tensor:
    """Part / total, beside vectors per image; 0 of nothing is 0."""
    safe = total.clamp_min(1) if isinstance(total, Tensor) else total
    return per_image(part, 1) / per_image(safe, 1)
