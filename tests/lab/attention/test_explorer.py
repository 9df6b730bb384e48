"""Vectors that are stored in another basis give the same attention."""

import pytest
import torch

from scalednl.inspection.factors import Factors
from scalednl.lab.attention.explorer import evened
from tests.support import assert_close


@pytest.mark.parametrize("softmax", [True, False])
def test_another_basis_gives_the_same_maps(softmax: bool) -> None:
    """Evened vectors have theta's and phi's products, whichever is the shorter list."""
    torch.manual_seed(0)
    for queries, keys in ((3, 7), (7, 3), (9, 9)):
        maps = Factors(torch.randn(2, queries, 5), torch.randn(2, keys, 5), torch.ones(2), softmax)
        assert_close(evened(maps).complete(), maps.complete(), 1e-5)
