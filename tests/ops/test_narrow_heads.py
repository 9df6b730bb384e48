"""Softmax attention of narrow heads, against the reference and against torch's own function."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from scalednl.ops import narrow_heads, reference
from scalednl.ops.attention import nonlocal_attention
from scalednl.ops.narrow_heads import WIDTH, has_narrow_heads, narrow_attention
from scalednl.options import VIEWS
from tests.support import LAYOUTS, assert_close, laid_out

IMAGES = 5


def _triple() -> tuple[Tensor, Tensor, Tensor]:
    return _split(4), _split(4), _split(4)


def _torchs(inputs: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    queries, keys, values = inputs
    return F.scaled_dot_product_attention(queries, keys, values, scale=0.5)


def _split(width: int, pixels: int = 12, heads: int = 3) -> Tensor:
    return torch.randn(IMAGES, pixels, heads, width).transpose(1, 2).requires_grad_()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images each call of torch's kernel got."""
    found: list[int] = []
    kernel = narrow_heads._forward

    def counted(queries: Tensor, *rest: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        found.append(len(queries))
        return kernel(queries, *rest, scale=scale)

    monkeypatch.setattr(narrow_heads, "_forward", counted)
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [2, 3, 8, 15])
def test_they_equal_the_reference(width: int, view: str, layout: str, calls: list[int]) -> None:
    """Values and gradients, with fewer keys than queries, in every view and layout."""
    theta = laid_out(torch.randn(2, 2 * width, 4, 6), layout).detach()
    phi, g = (laid_out(torch.randn(2, 2 * width, 3, 4), layout).detach() for _ in range(2))
    made: list[Tensor] = []
    truth: list[Tensor] = []
    for dtype, found in ((torch.float32, made), (torch.float64, truth)):
        inputs = [t.to(dtype).requires_grad_() for t in (theta, phi, g)]
        options = {"heads": 2, "attention": "softmax", "view": view}
        if dtype == torch.float32:
            y = nonlocal_attention(*inputs, **options)  # type: ignore[arg-type]
        else:
            flat = (t.flatten(2) for t in inputs)
            y = reference.nonlocal_attention(*flat, **options).view_as(theta)  # type: ignore[arg-type]
        found += [y, *torch.autograd.grad(y.square().sum(), inputs)]
    assert calls == [2]
    for value, true in zip(made, truth, strict=True):
        assert_close(value.double(), true, 5e-6)


def test_chunks_change_no_bit(monkeypatch: pytest.MonkeyPatch, calls: list[int]) -> None:
    """One image at a time, two, or all: the same numbers."""
    inputs = _split(4), _split(4, pixels=7), _split(4, pixels=7)
    found = []
    for chunk in (1, 2 * 3 * 12 * WIDTH, 2**19):
        monkeypatch.setattr(narrow_heads, "CHUNK", chunk)
        y = narrow_attention(*inputs, 0.5)
        found.append([y, *torch.autograd.grad(y.square().sum(), inputs)])
    assert calls == [1] * 5 + [2, 2, 1] + [5]
    for other in found[1:]:
        for value, first in zip(other, found[0], strict=True):
            assert torch.equal(value, first)


def test_nothing_wider_is_kept() -> None:
    """As many bytes are kept for backward as by torch's own function."""
    inputs = _triple()

    def kept(attend: Callable[[], Tensor]) -> int:
        stores: dict[int, int] = {}

        def pack(t: Tensor) -> Tensor:
            stores[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = attend()
        assert y.requires_grad
        return sum(stores.values())

    torchs = kept(lambda: _torchs(inputs))
    assert kept(lambda: narrow_attention(*inputs, 0.5)) == torchs


def test_they_are_for_narrow_heads_on_the_processor_alone() -> None:
    """Every other case stays with torch's own function."""
    narrow, keys = _split(4), _split(4, pixels=7)
    assert has_narrow_heads(narrow, keys)
    assert not has_narrow_heads(_split(WIDTH), _split(WIDTH))
    assert not has_narrow_heads(narrow.double(), keys.double())
    assert not has_narrow_heads(narrow.bfloat16(), keys.bfloat16())
    assert not has_narrow_heads(narrow.to("meta"), keys.to("meta"))
    assert not has_narrow_heads(narrow[:0], keys[:0])
    with torch.autocast("cpu"):
        assert not has_narrow_heads(narrow, keys)
    with sdpa_kernel(SDPBackend.MATH):
        assert not has_narrow_heads(narrow, keys)

    def per_image(one: Tensor) -> Tensor:
        assert not has_narrow_heads(one[None], one[None])
        return one

    torch.vmap(per_image)(narrow)


def test_second_derivatives_are_refused_as_by_torch() -> None:
    """An error, never a wrong number."""
    inputs = _triple()
    for y in (narrow_attention(*inputs, 0.5), _torchs(inputs)):
        (slope,) = torch.autograd.grad(y.square().sum(), inputs[:1], create_graph=True)
        with pytest.raises(RuntimeError):
            torch.autograd.grad(slope.sum(), inputs[:1])
