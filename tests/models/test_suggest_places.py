"""Places for blocks, for those who have not named one."""

import torch
from torch import nn

from scalednl import create_model
from scalednl.models.suggest_places import suggested_places


def test_the_last_module_of_each_size_is_named() -> None:
    """With its channels and size, outermost first; a map of one pixel is none."""

    def stage(inputs: int, outputs: int, stride: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1), nn.ReLU())

    model = nn.Sequential(stage(3, 8, 1), stage(8, 8, 1), stage(8, 16, 2), stage(16, 32, 4))
    found = suggested_places(model, torch.randn(2, 3, 8, 8))
    assert found == ", such as --at 1 (8 channels, 8 x 8) or 2 (16 channels, 4 x 4)"


def test_residual_blocks_are_found() -> None:
    """In networks that call the parts of their stages."""
    assert "stages.1.0 (32 channels, 8 x 8)" in suggested_places(
        create_model("preresnet8"), torch.randn(2, 3, 16, 16)
    )


def test_no_place_is_a_sentence_too() -> None:
    """Such as in a linear classifier."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
    assert "no module" in suggested_places(model, torch.randn(2, 3, 4, 4))
