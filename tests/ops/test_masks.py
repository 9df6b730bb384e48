"""Masked maps: zeros where no pixel exists, whatever stood there, in every precision."""

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from scalednl.ops.layout import pixel_rows
from scalednl.ops.masks import (
    check_mask,
    count_pixels,
    pixel_column,
    shown,
    shown_rows,
)
from tests.support import LAYOUTS, laid_out

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _maps(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Maps with NaN and infinities outside a mask, and the mask."""
    maps, mask = torch.randn(2, 3, 4, 5), torch.rand(2, 4, 5) > 0.4
    bad = torch.tensor([torch.nan, torch.inf, -torch.inf])[torch.randint(3, maps.shape)]
    return torch.where(mask[:, None], maps, bad).to(dtype), mask


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_hidden_pixels_are_zeros(dtype: torch.dtype, layout: str) -> None:
    """Visible numbers keep their bits, hidden NaN and infinities are 0; the layout stays."""
    values, mask = _maps(dtype)
    maps = laid_out(values, layout)
    found = shown(maps, mask)
    assert torch.equal(found, torch.where(mask[:, None], maps, 0))
    assert found.dtype == dtype
    assert found.stride() == maps.stride()
    assert shown(maps, None) is maps


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients_of_hidden_pixels_are_zeros(dtype: torch.dtype) -> None:
    """Even where the gradient that arrives is NaN; all others pass unchanged."""
    values, mask = _maps(dtype)
    maps = values.requires_grad_()
    grad = _maps(dtype)[0].masked_fill(~mask[:, None], torch.nan)
    (found,) = torch.autograd.grad(shown(maps, mask), maps, grad)
    assert torch.equal(found.isnan(), torch.where(mask[:, None], grad, 0).isnan())
    assert not found.masked_select(~mask[:, None]).any()


def test_second_derivatives() -> None:
    """The gradient of a gradient is masked too, and passes gradgradcheck."""
    maps, mask = (
        torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True),
        torch.rand(2, 3) > 0.5,
    )
    assert torch.autograd.gradgradcheck(lambda x: shown(x, mask).pow(3), (maps,))


def test_transforms_compute_the_same() -> None:
    """vmap over maps or masks, grad, jvp and dual numbers agree with torch.where."""
    values, mask = _maps()
    rows, exist = pixel_rows(values), pixel_column(mask)
    truth = torch.where(exist, rows, 0)
    stacked = torch.stack([rows, 2 * rows])
    assert torch.equal(torch.vmap(shown_rows, (0, None))(stacked, exist)[1], 2 * truth)
    masks = torch.stack([exist, ~exist])
    assert torch.equal(torch.vmap(shown_rows, (None, 0))(rows, masks)[0], truth)
    slope = torch.func.grad(lambda r: shown_rows(r, exist).square().sum())(rows)
    assert torch.equal(slope, 2 * truth)
    tangent = torch.randn_like(rows)
    moved = torch.func.jvp(lambda r: shown_rows(r, exist), (rows,), (tangent,))[1]
    with forward_ad.dual_level():
        dual = shown_rows(forward_ad.make_dual(rows, tangent), exist)
        assert torch.equal(forward_ad.unpack_dual(dual).tangent, moved)
    assert torch.equal(moved, torch.where(exist, tangent, 0))


def test_counts_are_exact_in_half_precision() -> None:
    """300 pixels of a bfloat16 map are 300, which bfloat16 itself does not have."""
    mask = torch.zeros(2, 20, 20, dtype=torch.bool)
    mask[0].view(-1)[:300] = True
    count = count_pixels(mask, torch.bfloat16)
    assert count.tolist() == [300, 0]
    assert count.dtype == torch.float32


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        ([True], "^key_mask must be a bool tensor, but got a list$"),
        (torch.ones(2, 4, 5).bool().numpy(), "^key_mask must be a bool tensor, but got a ndarray$"),
        (torch.ones(2, 4, 5), r"^key_mask must be bool.* got torch.float32: pass key_mask > 0"),
        (torch.ones(2, 5, 4).bool(), r"= \(2, 4, 5\) for maps of shape .* but got \(2, 5, 4\)$"),
        (torch.ones(4, 5).bool(), r"but got \(4, 5\)$"),
        (torch.ones(2, 4, 5, device="meta").bool(), "key_mask is on meta, but the maps are on cpu"),
    ],
    ids=["list", "numpy", "float", "transposed", "no batch", "device"],
)
def test_masks_that_do_not_fit(mask: object, sentence: str) -> None:
    """Each is refused with what was passed and what would work."""
    with pytest.raises(ValueError, match=sentence):
        check_mask("key_mask", mask, torch.randn(2, 3, 4, 5))
