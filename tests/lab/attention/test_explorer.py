"""Vectors that are stored in another basis give the same attention."""

import pytest
import torch

from scalednl.inspection.factors import Factors
from scalednl.lab.attention.explorer import WIDEST, evened
from tests.support import assert_close


@pytest.mark.parametrize("softmax", [True, False])
def test_another_basis_gives_the_same_maps(softmax: bool) -> None:
    """Evened vectors have theta's and phi's products, whichever is the shorter list."""
    torch.manual_seed(0)
    for queries, keys in ((3, 7), (7, 3), (9, 9)):
        maps = Factors(torch.randn(2, queries, 5), torch.randn(2, keys, 5), torch.ones(2), softmax)
        assert_close(evened(maps).complete(), maps.complete(), 1e-5)


def test_a_map_that_is_no_product_is_shown_by_its_largest_singular_values() -> None:
    """Exactly up to 32 channels, and as well as any 32 channels can beyond."""
    for size in (20, 60):
        a = torch.rand(1, size, size, dtype=torch.float64)
        unit = torch.eye(size, dtype=torch.float64)[None]
        maps = Factors(a, unit, torch.ones(1, dtype=torch.float64), False, is_product=False)
        found = evened(maps)
        assert found.theta.shape[-1] == min(size, WIDEST)
        left = torch.linalg.svdvals(a)[0, WIDEST:].norm()
        assert abs((found.complete() - a).norm() - left) < 1e-9
