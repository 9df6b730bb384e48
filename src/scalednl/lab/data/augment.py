"""Augmentation of a complete batch at once: draw the random numbers, then move the pixels.

The numbers depend on the seed alone, and the result on the numbers alone. Images are uint8
(batch, height, width, 3), and become the channels_last floats that networks train on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Real, UInt8
from torch import Generator, Tensor

from scalednl.errors import UsageError

Raw = UInt8[Tensor, "batch height width 3"]
Pixels = Real[Tensor, "batch new_height new_width 3"]
"""Bytes, or floats of the same range"""
PerImage = Int[Tensor, "batch"]
AREAS = (0.08, 1.0)
"""Smallest and largest area of a resized crop, relative to the image"""
RATIOS = (3 / 4, 4 / 3)
"""Smallest and largest width / height of a resized crop"""
TRIES = 10


@dataclass(frozen=True)
class Crops:
    """For every image the box that is cropped, and whether it is mirrored."""

    top: PerImage
    left: PerImage
    height: PerImage
    width: PerImage
    flip: Bool[Tensor, "batch"]

    def part(self, mine: slice) -> "Crops":
        """The numbers of some images of the batch."""
        return Crops(*(getattr(self, name)[mine] for name in self.__dataclass_fields__))

    def to(self, device: torch.device) -> "Crops":
        """The same numbers on a device."""
        return Crops(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class PaddedCrop:
    """A window of the image's own size, shifted by up to `pad` pixels; half are mirrored.

    Pixels beyond the edge are black. With `pad=0` and no mirroring, the image itself.
    """

    pad: int = 4
    mirror: bool = True

    def draw(self, batch: int, side: int, generator: Generator) -> Crops:
        """Offsets from 0 to 2 pad."""
        top, left = torch.randint(2 * self.pad + 1, (2, batch), generator=generator)
        size = torch.full((batch,), side)
        return Crops(top, left, size, size, _flips(batch, self.mirror, generator))

    def cut(self, images: Raw, crops: Crops) -> UInt8[Tensor, "batch height width 3"]:
        """One gather of pixels."""
        batch, height, width, _ = images.shape
        padded = F.pad(images, (0, 0, *[self.pad] * 4))
        columns = torch.arange(width, device=images.device)
        rows = torch.arange(height, device=images.device)
        columns = torch.where(crops.flip[:, None], width - 1 - columns, columns)
        across = padded.shape[2]
        start = torch.arange(batch, device=images.device) * (padded.shape[1] * across)
        lines = start[:, None] + (crops.top[:, None] + rows) * across
        where = lines[:, :, None] + (crops.left[:, None] + columns)[:, None, :]
        return padded.view(-1, 3).index_select(0, where.flatten()).view_as(images)


@dataclass(frozen=True)
class ResizedCrop:
    """A random part of the image, of random shape, resized to `size` x `size`; half are mirrored.

    Uniform areas, log-uniform width / height, ten tries, then the complete image: as torchvision's
    RandomResizedCrop. Resizing is bilinear with antialiasing. It is separable, so a batch of
    different boxes is two batched products with matrices of weights.
    """

    size: int
    mirror: bool = True

    def draw(self, batch: int, side: int, generator: Generator) -> Crops:
        """The first of ten boxes that fits, for every image."""
        area, shape = torch.rand((2, batch, TRIES), generator=generator, dtype=torch.float64)
        area = side * side * (AREAS[0] + (AREAS[1] - AREAS[0]) * area)
        low, high = math.log(RATIOS[0]), math.log(RATIOS[1])
        ratio = torch.exp(low + (high - low) * shape)
        widths, heights = ((area * ratio).sqrt().round(), (area / ratio).sqrt().round())
        fits = (widths >= 1) & (widths <= side) & (heights >= 1) & (heights <= side)
        first = fits.int().argmax(1, keepdim=True)
        none = ~fits.any(1)
        width, height = (
            torch.where(none, side, sizes.gather(1, first)[:, 0]).long()
            for sizes in (widths, heights)
        )
        place = torch.rand((2, batch), generator=generator, dtype=torch.float64)
        top = (place[0] * (side - height + 1)).long()
        left = (place[1] * (side - width + 1)).long()
        return Crops(top, left, height, width, _flips(batch, self.mirror, generator))

    def cut(self, images: Raw, crops: Crops) -> Float[Tensor, "batch size size 3"]:
        """Rows, then columns."""
        batch, side, width, _ = images.shape
        down = antialiased_weights(crops.top, crops.height, side, self.size)
        across = antialiased_weights(crops.left, crops.width, width, self.size)
        across = torch.where(crops.flip[:, None, None], across.flip(1), across)
        lines = down @ images.view(batch, side, width * 3).float()
        lines = lines.view(batch, self.size, width, 3).transpose(1, 2).reshape(batch, width, -1)
        return (across @ lines).view(batch, self.size, self.size, 3).transpose(1, 2)


@dataclass(frozen=True)
class CentreCrop:
    """The middle of every image; draws nothing."""

    size: int

    def draw(self, batch: int, side: int, generator: Generator) -> Crops:  # noqa: ARG002
        """The same box for all."""
        start = torch.full((batch,), (side - self.size) // 2)
        size = torch.full((batch,), self.size)
        return Crops(start, start, size, size, torch.zeros(batch, dtype=torch.bool))

    def cut(self, images: Raw, crops: Crops) -> UInt8[Tensor, "batch size size 3"]:  # noqa: ARG002
        """A view."""
        if images.shape[1] < self.size:
            raise UsageError(
                f"a crop of {self.size} pixels does not fit into images of {images.shape[1]}"
            )
        start = (images.shape[1] - self.size) // 2
        return images[:, start : start + self.size, start : start + self.size]


Crop = PaddedCrop | ResizedCrop | CentreCrop
"""`draw` draws the numbers for a batch of images of side x side pixels, on the CPU; `cut` crops"""


class Normaliser:
    """(pixel / 255 - mean) / std, as channels_last floats."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], device: torch.device) -> None:
        self._factor = torch.tensor([1 / (255 * s) for s in std], device=device)
        self._shift = torch.tensor([m / s for m, s in zip(mean, std, strict=True)], device=device)

    def __call__(self, pixels: Pixels) -> Float[Tensor, "batch 3 new_height new_width"]:
        """A new tensor; `pixels` are not changed."""
        values = torch.empty(pixels.shape, device=pixels.device)
        torch.mul(pixels, self._factor, out=values)
        return values.sub_(self._shift).permute(0, 3, 1, 2)


def antialiased_weights(
    start: PerImage, length: PerImage, side: int, size: int
) -> Float[Tensor, "batch size side"]:
    """Weights of `side` pixels in each of `size` new ones that show `length` pixels from `start`.

    A triangle around each new pixel's middle, as wide as a new pixel and at least as wide as an old
    one, over the pixels of the box alone, and normalised.
    """
    start, length = start[:, None, None].float(), length[:, None, None].float()
    zoom = length / size
    support = zoom.clamp(min=1)
    new = torch.arange(size, device=start.device)[:, None] + 0.5
    old = torch.arange(side, device=start.device)[None, :] + 0.5
    distance = (old - start - new * zoom).abs() / support
    inside = (old > start) & (old < start + length)
    weights = (1 - distance).clamp(min=0) * inside
    return weights / weights.sum(2, keepdim=True)


def _flips(batch: int, mirror: bool, generator: Generator) -> Bool[Tensor, "batch"]:
    # Always drawn, so that switching it off changes nothing else.
    return torch.rand(batch, generator=generator).lt(0.5) & mirror
