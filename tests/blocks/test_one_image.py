"""One image in either layout, with a gradient in either layout."""

import pytest
import torch

import scalednl
from scalednl.ops.planner import Choice
from tests.support import (
    LAYOUTS,
    assert_close_all,
    force,
    laid_out,
    randomise,
    with_gradients,
)

CASES = [
    ("base", None, Choice("gram", False)),
    ("base", None, Choice("gram", True)),
    ("base", "before", Choice("gram", False)),
    ("base", None, Choice("associative", False)),
    ("magnitude", None, Choice("rank_one", False)),
    ("magnitude", "before", Choice("rank_one", False)),
]


@pytest.mark.parametrize("grad_layout", LAYOUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("view", "pool", "choice"), CASES)
def test_gradients_of_one_image(
    view: str, pool: str | None, choice: Choice, layout: str, grad_layout: str
) -> None:
    """Batch norm in training gets a branch whose strides it can differentiate."""
    torch.manual_seed(0)
    block = scalednl.NonLocal2d(8, view=view, key_pool=pool, heads=2)  # type: ignore[arg-type]
    block = force(randomise(block.double()), choice)
    for space in ((3, 3), (4, 5)):
        x = laid_out(torch.randn(1, 8, *space, dtype=torch.float64), layout)
        grad = laid_out(torch.randn(1, 8, *space, dtype=torch.float64), grad_layout).detach()
        truth = with_gradients(None, block, x, grad)
        assert_close_all(with_gradients(block, block, x, grad), truth, 1e-9)
