"""Sequences, images and videos are the same equations over pixels."""

import pytest
import torch
from torch import nn

import scalednl
from tests.support import assert_close, randomise

SHAPES = {1: (12,), 2: (3, 4), 3: (2, 3, 2)}
BLOCKS = {1: scalednl.NonLocal1d, 2: scalednl.NonLocal2d, 3: scalednl.NonLocal3d}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dims", BLOCKS)
def test_only_the_number_of_pixels_counts(dims: int, training: bool) -> None:
    """The block over images, given the same pixels as one long row, computes the same."""
    block = randomise(BLOCKS[dims](6, heads=2).double()).train(training)
    long = scalednl.NonLocal2d(6, heads=2).double().train(training)
    shapes = {name: value.shape for name, value in long.state_dict().items()}
    long.load_state_dict({k: v.reshape(shapes[k]) for k, v in block.state_dict().items()})
    x = torch.randn(2, 6, *SHAPES[dims], dtype=torch.float64)
    assert_close(block(x), long(x.flatten(2)[:, :, None]).view_as(x), 1e-10)
    for ours, theirs in zip(block.buffers(), long.buffers(), strict=True):
        assert_close(ours.double(), theirs.double(), 1e-10)


def test_their_modules() -> None:
    """Each has the convolutions and the norm of its number of dimensions, and its own docstring."""
    for dims, kind in BLOCKS.items():
        block = kind(6, heads=2)
        assert type(block.theta) is getattr(nn, f"Conv{dims}d")
        assert type(block.norm) is getattr(nn, f"BatchNorm{dims}d")
        assert "A non-local block over (batch, channels," in str(kind.__doc__)
        assert "softmax_scale" in str(kind.__doc__)


@pytest.mark.parametrize(
    ("dims", "space", "keys"), [(1, (9,), 4), (2, (5, 6), 6), (3, (3, 4, 5), 3 * 2 * 2)]
)
def test_keys_pool_in_space_and_not_in_time(dims: int, space: tuple[int, ...], keys: int) -> None:
    """Halved along every axis but time; the odd row that is left over is dropped."""
    block = BLOCKS[dims](6, heads=2, key_pool="before")
    x = torch.randn(1, 6, *space)
    assert block.embed(x)[1].flatten(2).shape[2] == keys
    assert block.plan(x.shape).keys == keys
