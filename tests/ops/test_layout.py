"""Pixel rows: products in place, in the layout and precision that they promise."""

import pytest
import torch

from scalednl.lab.counting import multiply_adds
from scalednl.ops.costs import MIRRORED, gram_entries
from scalednl.ops.layout import (
    accumulation_dtype,
    add_mixed_,
    autocasts,
    dense_rows,
    full_precision,
    gram_matrices,
    mix_rows,
    multiplies_in_fp16,
    multiplies_in_half,
    pixel_count,
    pixel_rows,
    rows_to_maps,
)
from tests.support import LAYOUTS, assert_close, laid_out


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("space", [(7,), (3, 5), (2, 3, 4)])
def test_rows_are_a_view_and_undone(space: tuple[int, ...], layout: str) -> None:
    """Row i has the channels of pixel i, nothing is copied, and maps come back in their layout."""
    maps = laid_out(torch.randn(2, 4, *space), layout)
    rows = pixel_rows(maps)
    assert rows.data_ptr() == maps.data_ptr()
    assert torch.equal(rows[1, 0], maps[1].flatten(1)[:, 0])
    again = rows_to_maps(rows, space)
    assert torch.equal(again, maps)
    assert again.stride() == maps.stride()
    assert rows.shape[1] == pixel_count(space)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_mixing_rows(layout: str) -> None:
    """row_i -> matrix row_i + added, as a new map or added in place, in the rows' layout."""
    rows = pixel_rows(laid_out(torch.randn(2, 4, 3, 5, dtype=torch.float64), layout)).detach()
    matrix, added = torch.randn(2, 4, 4).double(), torch.randn(2, 4).double()
    truth = torch.einsum("boc,bpc->bpo", matrix, rows)
    assert_close(mix_rows(rows, matrix), truth, 1e-12)
    assert_close(mix_rows(rows, matrix, added), truth + added[:, None], 1e-12)
    target = rows.clone()
    assert add_mixed_(target, rows, matrix) is target
    assert_close(target, rows + truth, 1e-12)
    assert mix_rows(rows, matrix).stride() == target.stride() == rows.stride()


def test_only_rows_that_no_product_can_read_are_copied() -> None:
    """Both layouts stay what they are; an expanded gradient becomes dense."""
    rows = torch.randn(2, 6, 4)
    for readable in (rows, rows.mT.contiguous().mT):
        assert dense_rows(readable) is readable
    expanded = torch.ones(()).expand(2, 6, 4)
    assert dense_rows(expanded).is_contiguous()
    assert torch.equal(dense_rows(expanded), expanded)


def test_precision_follows_autocast() -> None:
    """Which products are half precision, inside autocast, inside `full_precision`, and outside."""
    x, half = torch.randn(3), torch.randn(3).half()
    assert (multiplies_in_half(x), multiplies_in_half(half)) == (False, True)
    assert (multiplies_in_fp16(half), multiplies_in_fp16(half.bfloat16())) == (True, False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert multiplies_in_half(x)
        assert not multiplies_in_half(x.double())
        assert not multiplies_in_fp16(x)
        with full_precision(x):
            assert not autocasts(x)
            assert not multiplies_in_half(x)
        assert autocasts(x)
    with torch.autocast("cpu", dtype=torch.float16):
        assert multiplies_in_fp16(x)
    dtypes = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    wide = (torch.float32, torch.float32, torch.float32, torch.float64)
    assert tuple(map(accumulation_dtype, dtypes)) == wide


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("channels", [MIRRORED - 1, MIRRORED, MIRRORED + 1, MIRRORED + 7])
def test_a_mirrored_product_is_the_whole_one(channels: int, layout: str) -> None:
    """The same matrices, by as many multiply-adds as are counted."""
    rows = pixel_rows(laid_out(torch.randn(2, channels, 5, 3).double(), layout)).detach()
    matrices = gram_matrices(rows)
    assert_close(matrices, torch.bmm(rows.mT, rows), 1e-14)
    counted = multiply_adds(lambda: gram_matrices(rows))
    assert counted == 2 * 15 * gram_entries(channels)
    assert (gram_entries(channels) < channels**2) == (channels >= MIRRORED)


def test_a_mirrored_product_is_whole_where_something_looks_on() -> None:
    """Autograd, vmap and other devices get one product."""
    rows = torch.randn(2, 15, MIRRORED, dtype=torch.float64)
    truth = torch.bmm(rows.mT, rows)
    whole = 2 * 15 * MIRRORED**2
    watched = rows.clone().requires_grad_()
    assert multiply_adds(lambda: gram_matrices(watched)) == whole
    assert gram_matrices(watched).requires_grad
    assert_close(torch.vmap(lambda image: gram_matrices(image[None])[0])(rows), truth, 1e-14)
    assert multiply_adds(lambda: gram_matrices(rows.to("meta"))) == whole
