"""What a view shows of every head: lengths, directions, or all."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from scalednl.ops.views import apply_view, directions, lengths, merge_heads, split_heads
from tests.support import assert_close


def test_heads_are_slices_of_channels() -> None:
    """Head h of pixel i has channels h d to (h + 1) d, and merging undoes splitting."""
    rows = torch.randn(2, 5, 6)
    split = split_heads(rows, 3)
    assert torch.equal(split[1, 2, 4], rows[1, 4, 4:6])
    assert torch.equal(merge_heads(split), rows)


def test_length_times_direction_is_the_vector() -> None:
    """Directions have length 1, head by head, and the base view is the vector itself."""
    split = split_heads(torch.randn(2, 5, 6, dtype=torch.float64), 2)
    length, direction = (apply_view(split, view) for view in ("magnitude", "direction"))
    assert_close(length.squeeze(-1), split.norm(dim=-1), 1e-12)
    assert_close(direction.norm(dim=-1), torch.ones(2, 2, 5).double(), 1e-12)
    assert_close(length * direction, split, 1e-12)
    assert apply_view(split, "base") is split


@pytest.mark.parametrize("view", [lengths, directions])
def test_zero_vectors(view: Callable[[Tensor], Tensor]) -> None:
    """Length, direction and all their derivatives are 0; the neighbour's are right."""
    split = torch.randn(1, 1, 2, 3, dtype=torch.float64)
    split[0, 0, 0] = 0
    split.requires_grad_()
    found = view(split)
    assert not found[0, 0, 0].any()
    (slope,) = torch.autograd.grad(found.pow(2).sum() + found.sum(), split, create_graph=True)
    assert not slope[0, 0, 0].any()
    (second,) = torch.autograd.grad(slope.square().sum(), split)
    assert second.isfinite().all()
    assert not second[0, 0, 0].any()
    rest = split[:, :, 1:].detach().requires_grad_()
    assert torch.autograd.gradcheck(view, (rest,))


def test_lengths_of_float16_vectors_do_not_overflow() -> None:
    """The square of 300 is not a float16; the length of (300, 400) is 500."""
    split = torch.tensor([[[[300.0, 400.0]]]], dtype=torch.float16)
    assert lengths(split).item() == 500
    assert apply_view(split, "magnitude").dtype == torch.float16
    assert_close(directions(split).float(), torch.tensor([[[[0.6, 0.8]]]]), 1e-3)
