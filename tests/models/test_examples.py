"""Examples in every form that a forward pass takes, and inputs of other sizes made from them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import scalednl
from scalednl.models.examples import variations

IMAGES = torch.randn(2, 3, 16, 12, generator=torch.Generator().manual_seed(0))
MASK = torch.ones(2, 16, 12, dtype=torch.bool)


class Keywords(nn.Module):
    """Takes keyword arguments only."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 1)

    def forward(self, *, image: Tensor, scale: float = 1.0) -> dict[str, Tensor]:
        """Maps in a dict."""
        return {"maps": self.conv(image) * scale}


class Batch(Keywords):
    """Takes a dict as its one argument."""

    def forward(self, batch: dict[str, Tensor]) -> Any:  # type: ignore[override]
        """Maps in a dict."""
        return super().forward(image=batch["image"])


class Masked(Keywords):
    """Takes images and their mask."""

    def forward(self, image: Tensor, mask: Tensor) -> Any:  # type: ignore[override]
        """Maps, 0 outside the mask."""
        return super().forward(image=image * mask[:, None])


class Detector(Keywords):
    """Takes a list of images."""

    def forward(self, images: list[Tensor]) -> Any:  # type: ignore[override]
        """Maps in a dict."""
        return super().forward(image=torch.stack(images))


class Changing(Keywords):
    """Changes its input."""

    def forward(self, image: Tensor) -> Any:  # type: ignore[override]
        """Maps of half the image."""
        return super().forward(image=image.mul_(0.5))


@pytest.mark.parametrize(
    ("make", "example"),
    [
        (Keywords, {"image": IMAGES}),
        (Keywords, {"image": IMAGES, "scale": 2.0}),
        (Batch, {"image": IMAGES}),
        (Masked, (IMAGES, MASK)),
        (Masked, {"mask": MASK, "image": IMAGES}),
        (Detector, [IMAGES[0], IMAGES[1]]),
        (Changing, IMAGES),
    ],
)
def test_examples_of_every_form(make: "type[nn.Module]", example: object) -> None:
    """Positional, keyword and single arguments; the example itself is never changed."""
    before = IMAGES.clone()
    _, report = scalednl.insert_nonlocal(make(), "conv", example=example)
    assert report.insertions[0].layout == "NCHW"
    assert report.insertions[0].space == (16, 12)
    assert report.unchanged
    assert torch.equal(IMAGES, before)


@pytest.mark.parametrize(
    ("example", "sentence"),
    [
        (IMAGES, r"does not run on the example \(TypeError: .*positional"),
        ({"image": IMAGES[:, :2]}, r"does not run on the example \(RuntimeError: .*channels"),
        ({"image": IMAGES[:0]}, "example has a batch of 0"),
    ],
)
def test_examples_that_do_not_fit(example: object, sentence: str) -> None:
    """The model's own error is part of the sentence."""
    with pytest.raises(ValueError, match=sentence):
        scalednl.insert_nonlocal(Keywords(), "conv", example=example)


@pytest.mark.parametrize("space", [(224, 224), (16, 12), (96, 64), (1, 1), (8, 30, 40), (12,)])
def test_variations_change_every_size(space: tuple[int, ...]) -> None:
    """Height and width both differ from the example's, and so do their product and the batch."""
    mask = torch.zeros(2, *space, dtype=torch.bool)
    *others, same, _ = variations({"image": torch.rand(2, 3, *space), "mask": mask})
    for other in others:
        image, valid = other["image"], other["mask"]
        assert image.shape[0] == valid.shape[0] == 3
        assert image.shape[2:] == valid.shape[1:]
        changeable = len(space[-2:])
        assert all(a != b for a, b in zip(image.shape[-changeable:], space[-2:], strict=True))
        assert image[0, 0].numel() != mask[0].numel()
        assert 0 <= image.min() <= image.max() <= 1
        assert valid.dtype == torch.bool
    assert others
    assert same["image"].shape == (3, 3, *space)


class OnlyLarge(Keywords):
    """Calls a convolution for wide images only."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Conv2d(8, 8, 1)

    def forward(self, image: Tensor) -> Tensor:  # type: ignore[override]
        """Depends on the width."""
        maps = self.conv(image)
        return self.wide(maps) if image.shape[-1] > 100 else maps


def test_a_module_that_small_inputs_do_not_reach() -> None:
    """It is tried with the example itself."""
    example = torch.randn(1, 3, 120, 120)
    _, report = scalednl.insert_nonlocal(OnlyLarge(), "wide", example=example)
    assert report.unchanged
