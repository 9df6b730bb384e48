"""The fit names the attention at every width, from maps of the two sizes that conversion tries."""

from collections.abc import Callable
from math import prod

import pytest
import torch
from torch import Tensor

from scalednl.models.fit_attention import Function, Seen, functions
from scalednl.models.identify import SPACES
from scalednl.options import USUAL_POOL

KINDS: dict[str, tuple[Callable[[Tensor, int], Tensor], Function]] = {
    "mean": (lambda f, _: f / f.shape[-1], Function("mean", "base", 1, None)),
    "scaled": (
        lambda f, d: f / (f.shape[-1] * d) ** 0.5,
        Function("scaled", "base", 1, None),
    ),
    "unscaled": (lambda f, d: f / d**0.5, Function("scaled", "base", 1, None, scale=False)),
    "softmax": (lambda f, d: (f / d**0.5).softmax(-1), Function("softmax", "base", 1, None)),
    "number": (
        lambda f, _: (0.43 * f).softmax(-1),
        Function("softmax", "base", 1, None, softmax_scale=0.43),
    ),
}


def observed(width: int, space: tuple[int, ...], weigh: Callable[[Tensor, int], Tensor]) -> Seen:
    """Random embeddings of one map, and the y that `weigh` gives."""
    theta, phi, g = torch.randn(3, 2, width, prod(space), dtype=torch.float64)
    theta = theta * width**-0.5
    return Seen(theta, {(None, USUAL_POOL): (phi, g)}, g @ weigh(theta.mT @ phi, width).mT)


@pytest.mark.parametrize("dims", SPACES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_width(kind: str, dims: int) -> None:
    """From 1 to 200 channels no coincidence of N and d leads to another attention."""
    weigh, expected = KINDS[kind]
    for width in range(1, 201):
        seen = [observed(width, space, weigh) for space in SPACES[dims]]
        found = next(functions(seen, channels=1000), None)
        assert found is not None, width
        assert (found.attention, found.scale, found.factor, found.heads) == (
            expected.attention,
            expected.scale,
            1.0,
            1,
        ), f"{width}: {found}"
        if expected.attention == "softmax" and width > 1:
            scale = expected.softmax_scale
            assert found.softmax_scale == (pytest.approx(scale) if kind == "number" else scale)
