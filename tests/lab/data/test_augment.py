"""Whole-batch augmentation equals the same done image by image, with the same random numbers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Generator, Tensor

from scalednl.lab.data import augment
from scalednl.lab.data.augment import (
    CentreCrop,
    Crops,
    Normaliser,
    PaddedCrop,
    ResizedCrop,
    antialiased_weights,
)

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def _images(count: int, side: int) -> Tensor:
    return torch.randint(0, 256, (count, side, side, 3), dtype=torch.uint8)


def _numbers(crops: Crops, index: int) -> tuple[int, int, int, int, bool]:
    return (
        int(crops.top[index]),
        int(crops.left[index]),
        int(crops.height[index]),
        int(crops.width[index]),
        bool(crops.flip[index]),
    )


def _padded_crop(image: Tensor, pad: int, top: int, left: int, flip: bool) -> Tensor:
    """Black edges, a window, a mirror: one image of (height, width, 3)."""
    height, width, _ = image.shape
    padded = torch.zeros(height + 2 * pad, width + 2 * pad, 3, dtype=torch.uint8)
    padded[pad : pad + height, pad : pad + width] = image
    window = padded[top : top + height, left : left + width]
    return window.flip(1) if flip else window


@pytest.mark.parametrize("pad", [0, 1, 4])
def test_padded_crops_are_the_pixels_of_the_reference(pad: int) -> None:
    """Every pixel equal, byte for byte."""
    images, crop = _images(64, 32), PaddedCrop(pad)
    crops = crop.draw(64, 32, Generator().manual_seed(3))
    cut = crop.cut(images, crops)
    for index in range(64):
        top, left, _, _, flip = _numbers(crops, index)
        assert torch.equal(cut[index], _padded_crop(images[index], pad, top, left, flip))


def test_padded_crops_reach_every_offset_and_mirror_half() -> None:
    """Offsets are uniform over 0 to 8 in both directions, mirroring is fair."""
    crops = PaddedCrop().draw(20_000, 32, Generator().manual_seed(0))
    for offsets in (crops.top, crops.left):
        counts = torch.bincount(offsets, minlength=9)
        assert len(counts) == 9
        assert counts.min() > 20_000 / 9 * 0.9
    assert abs(crops.flip.float().mean() - 0.5) < 0.02
    for crop in (PaddedCrop(mirror=False), ResizedCrop(32, mirror=False)):
        assert not crop.draw(100, 32, Generator().manual_seed(0)).flip.any()


def test_resized_crops_are_the_pixels_of_the_reference() -> None:
    """Every image equals torch's own antialiased bilinear resizing of its box, to 1e-3 levels."""
    images, crop = _images(64, 64), ResizedCrop(56)
    crops = crop.draw(64, 64, Generator().manual_seed(3))
    cut = crop.cut(images, crops)
    assert cut.shape == (64, 56, 56, 3)
    for index in range(64):
        top, left, height, width, flip = _numbers(crops, index)
        box = images[index, top : top + height, left : left + width].permute(2, 0, 1).float()
        right = F.interpolate(box[None], (56, 56), mode="bilinear", antialias=True)[0]
        right = right.flip(2) if flip else right
        assert (cut[index].permute(2, 0, 1) - right).abs().max() < 1e-3


def test_resized_crops_are_within_a_level_of_pillow() -> None:
    """Pillow, which rounds to bytes after each direction, differs by at most that rounding."""
    images, crop = _images(8, 64), ResizedCrop(56)
    crops = crop.draw(8, 64, Generator().manual_seed(4))
    cut = crop.cut(images, crops)
    for index in range(8):
        top, left, height, width, flip = _numbers(crops, index)
        picture = Image.fromarray(images[index].numpy()).crop(
            (left, top, left + width, top + height)
        )
        right = np.asarray(picture.resize((56, 56), Image.Resampling.BILINEAR), np.float32)
        mine = cut[index].flip(1) if flip else cut[index]
        assert np.abs(mine.numpy() - right).max() <= 1.01


def test_boxes_follow_the_published_distribution() -> None:
    """Areas are uniform in 0.08 to 1 before boxes that do not fit are drawn again."""
    crop = ResizedCrop(56)
    crops = crop.draw(20_000, 64, Generator().manual_seed(0))
    area = crops.height * crops.width / 64**2
    ratio = crops.width / crops.height
    assert area.min() >= 0.07
    assert (crops.top + crops.height <= 64).all()
    assert (crops.left + crops.width <= 64).all()
    # A box of 64 by 48 is rounded; small ones more so.
    assert ratio.min() > 0.7
    assert ratio.max() < 1.43
    assert abs(ratio.log().mean()) < 0.01
    small = (area < 0.5).float().mean().item()
    # Rejected boxes are large ones, so the small share exceeds (0.5 - 0.08) / 0.92 = 0.457.
    assert 0.457 < small < 0.56
    assert crops.top.max() > 40


def test_a_box_that_never_fits_is_the_complete_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no shape that fits, the image itself is resized."""
    monkeypatch.setattr(augment, "AREAS", (1.0, 1.0))
    monkeypatch.setattr(augment, "RATIOS", (3.0, 4.0))
    crops = ResizedCrop(56).draw(5, 64, Generator())
    assert crops.height.tolist() == [64] * 5
    assert crops.width.tolist() == [64] * 5


def test_weights_of_every_box_sum_to_one_within_it() -> None:
    """Nothing outside the box counts, even for a box of one pixel."""
    start, length = torch.tensor([0, 10, 63, 5]), torch.tensor([64, 20, 1, 3])
    weights = antialiased_weights(start, length, 64, 56)
    assert torch.allclose(weights.sum(2), torch.ones(4, 56))
    for index in range(4):
        outside = torch.ones(64, dtype=torch.bool)
        outside[start[index] : start[index] + length[index]] = False
        assert not weights[index][:, outside].any()


def test_centre_crop_is_the_middle() -> None:
    """Four pixels off each edge of a 64-pixel image for 56."""
    images, crop = _images(3, 64), CentreCrop(56)
    cut = crop.cut(images, crop.draw(3, 64, Generator()))
    assert torch.equal(cut, images[:, 4:60, 4:60])


def test_normalising_is_the_formula_in_channels_last() -> None:
    """(pixel / 255 - mean) / std, and the layout that convolutions like."""
    images = _images(4, 32)
    values = Normaliser(MEAN, STD, torch.device("cpu"))(images)
    right = (images.permute(0, 3, 1, 2) / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(
        STD
    )[:, None, None]
    assert (values - right).abs().max() < 1e-6
    assert values.is_contiguous(memory_format=torch.channels_last)
