"""Ranks with ties, and correlations of known lists."""

import pytest
import torch

from scalednl.inspection.ranks import rank_correlation, ranks


def test_equal_values_share_a_rank() -> None:
    """Two equal values have the mean of the two ranks, in every list by itself."""
    values = torch.tensor([[3.0, 1, 3, 2], [0, 0, 0, 5]])
    assert ranks(values).tolist() == [[3.5, 1, 3.5, 2], [2, 2, 2, 4]]


def test_only_the_order_counts() -> None:
    """A rising function correlates fully, a falling one negatively, a constant not at all."""
    values = torch.rand(3, 20, dtype=torch.float64)
    assert rank_correlation(values, values.exp() ** 9).tolist() == pytest.approx([1] * 3)
    assert rank_correlation(values, -(values**3)).tolist() == pytest.approx([-1] * 3)
    assert rank_correlation(values, torch.ones_like(values)).tolist() == [0] * 3
    known = torch.tensor([1.0, 2, 3, 4]), torch.tensor([2.0, 1, 4, 3])
    assert float(rank_correlation(*known)) == pytest.approx(0.6)
