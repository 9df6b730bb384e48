"""Moments collected in pieces are the moments of the whole."""

import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from scalednl import Moments
from tests.support import assert_close


def _scatter(x: Tensor) -> Tensor:
    flat = x.flatten(2)
    centred = flat - flat.mean(2, keepdim=True)
    return centred @ centred.mT


@settings(max_examples=30, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    merged=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_any_division_gives_the_whole(cuts: list[int], merged: bool, seed: int) -> None:
    """However an image is cut into slabs, updated or merged, the moments are those of the whole."""
    generator = torch.Generator().manual_seed(seed)
    slabs = [torch.randn(2, 3, rows, 4, generator=generator, dtype=torch.float64) for rows in cuts]
    moments = Moments()
    for slab in slabs:
        if merged:
            moments.merge(Moments().update(slab))
        else:
            moments.update(slab)
    whole = torch.cat(slabs, dim=2)
    assert moments.pixels == whole[0, 0].numel()
    assert moments.mean is not None
    assert moments.scatter is not None
    assert_close(moments.mean, whole.mean((2, 3)), 1e-12)
    assert_close(moments.scatter, _scatter(whole), 1e-10)


def test_half_precision_tiles_are_summed_in_float32() -> None:
    """Many fp16 pixels with a mean neither overflow nor lose their spread."""
    x = (torch.randn(1, 4, 256, 256) + 20).half()
    moments = Moments().update(x)
    assert moments.scatter is not None
    assert moments.scatter.dtype == torch.float32
    assert_close(moments.scatter, _scatter(x.double()), 1e-4)


def test_dtype_may_be_chosen() -> None:
    """Moments(dtype=float64) sums float32 tiles in float64."""
    x = torch.randn(1, 4, 8, 8) + 1e4
    moments = Moments(dtype=torch.float64).update(x)
    assert moments.scatter is not None
    assert_close(moments.scatter, _scatter(x.double()), 1e-12)


def test_gradients_flow_through_updates_and_merges() -> None:
    """The gradient of the merged moments is that of the whole image's."""
    x = torch.randn(2, 3, 6, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 3, 3, dtype=torch.float64)
    moments = Moments().update(x[:, :, :2]).merge(Moments().update(x[:, :, 2:]))
    assert moments.scatter is not None
    (found,) = torch.autograd.grad((moments.scatter * weight).sum(), x)
    (truth,) = torch.autograd.grad((_scatter(x) * weight).sum(), x)
    assert_close(found, truth, 1e-10)


def test_empty_moments_say_so() -> None:
    """Using empty moments is an error that names the missing call; printing them is not."""
    with pytest.raises(ValueError, match=r"empty: call update\(tile\)"):
        Moments().key_moments()
    with pytest.raises(ValueError, match="before any update"):
        Moments().all_reduce()
    assert repr(Moments()) == "Moments(empty)"
    assert repr(Moments().update(torch.ones(2, 3, 5))) == "Moments(5 pixels of 3 channels, batch 2)"


@pytest.mark.usefixtures("unchecked_shapes")
def test_pieces_that_do_not_fit_are_refused() -> None:
    """Another batch or channel count, integers, no pixels: each is named."""
    moments = Moments().update(torch.ones(2, 3, 4, 4))
    with pytest.raises(ValueError, match=r"hold \(batch, channels\) = \(2, 3\).*\(2, 5\)"):
        moments.update(torch.ones(2, 5, 4, 4))
    with pytest.raises(ValueError, match="floating-point"):
        moments.update(torch.ones(2, 3, 4, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"floating-point .* but got a list$"):
        moments.update([1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one pixel"):
        moments.update(torch.ones(2, 3, 0, 4))


def test_moments_move_with_their_counts() -> None:
    """Pixels that a mask counts are a tensor, which goes to the other device too."""
    moments = Moments().update(torch.randn(2, 3, 4), mask=torch.ones(2, 4, dtype=torch.bool))
    pixels = moments.to("meta").pixels
    assert isinstance(pixels, torch.Tensor)
    assert pixels.is_meta


def test_moments_survive_pickling() -> None:
    """Moments may be sent to another process."""
    moments = Moments().update(torch.randn(2, 3, 4))
    copy = pickle.loads(pickle.dumps(moments))
    assert copy.pixels == 4
    assert moments.scatter is not None
    assert torch.equal(copy.scatter, moments.scatter)
