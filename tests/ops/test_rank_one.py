"""The rank-one order against the reference: masks, centred keys, biases and heads."""

import pytest
import torch
from torch import Tensor

from scalednl.ops import reference
from scalednl.ops.gram.mixing import Projections
from scalednl.ops.rank_one import rank_one_branch
from tests.support import assert_close_all

Leaves = tuple[Tensor, ...]


def _leaves() -> Leaves:
    """Queries and keys as pixel rows, theta, phi, g and out, and the bias of g."""
    shapes = [(2, 7, 5), (2, 9, 5), (6, 5), (6, 5), (6, 5), (5, 6), (6,)]
    return tuple(torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)


def _truth(leaves: Leaves, center: str | None, mask: Tensor | None) -> Tensor:
    x, keys, theta, phi, g, out, bias = leaves
    y = reference.nonlocal_attention(
        theta @ x.mT,
        phi @ keys.mT,
        g @ keys.mT + bias[:, None],
        heads=3,
        view="magnitude",
        center=center,  # type: ignore[arg-type]
        key_mask=mask,
    )
    return (out @ y).mT


def _fast(leaves: Leaves, center: str | None, mask: Tensor | None, layout: str) -> Tensor:
    x, keys, theta, phi, g, out, bias = leaves
    factor: float | Tensor = (9 * 2) ** -0.5
    if mask is not None:
        keys = keys * mask[..., None]
        factor = (mask.sum(1).clamp_min(1).double() * 2) ** -0.5
    rows = keys if layout == "channels_last" else keys.mT.contiguous().mT
    w = Projections(
        *(theta, phi, g, out),
        g_bias=bias,
        heads=3,
        factor=factor,
        center=center,  # type: ignore[arg-type]
    )
    return rank_one_branch(x @ theta.mT, keys @ phi.mT, rows, w, mask)


@pytest.mark.parametrize("layout", ["nchw", "channels_last"])
@pytest.mark.parametrize("masked", ["all", "some", "none of one image"])
@pytest.mark.parametrize("center", [None, "keys", "keys+mean"])
def test_equals_the_reference(center: str | None, masked: str, layout: str) -> None:
    """Values and gradients of both maps, all weights and the bias of g agree to 1e-10."""
    leaves, mask = _leaves(), None
    if masked != "all":
        mask = torch.tensor([1, 0, 1, 1, 0, 0, 1, 1, 1], dtype=torch.bool).repeat(2, 1)
        mask[1] = masked == "some"
    found = []
    for u in (_fast(leaves, center, mask, layout), _truth(leaves, center, mask)):
        found.append((u, *torch.autograd.grad(u.square().mean() / 100, leaves)))
    assert_close_all(found[0], found[1], 1e-10)


def test_float16_sums_over_many_keys() -> None:
    """65,536 keys whose lengths sum beyond float16 give a finite branch near the float32 one."""
    x, keys = torch.rand(1, 4, 4), torch.rand(1, 1 << 16, 4)
    one = torch.eye(4)
    w = Projections(one, one, one, one, factor=(4 * keys.shape[1]) ** -0.5)
    truth = rank_one_branch(x, keys, keys, w)
    half = rank_one_branch(x.half(), keys.half(), keys.half(), w.to(torch.float16))
    assert float(keys.norm(dim=-1).sum()) > torch.finfo(torch.float16).max / 2
    assert_close_all((half.float(),), (truth,), 0.01)
