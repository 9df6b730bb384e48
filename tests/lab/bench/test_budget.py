"""The largest map within a budget."""

import pytest

from scalednl.lab.bench import budget
from scalednl.lab.bench.peak import Peak
from tests.lab.bench.builders import made_up_peak


def test_the_largest_map_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest multiple of 8 within the budget; extrapolated where a step takes too long."""
    monkeypatch.setattr(budget, "peak_of", made_up_peak)
    found = {one.method: one for one in budget.largest_maps(2**30, 60.0, 64, "cpu")}
    assert (found["softmax plain"].side, found["softmax plain"].measured) == (104, True)
    assert (found["auto"].side, found["auto"].measured) == (1024, True)
    assert (found["softmax fused"].side, found["softmax fused"].measured) == (1024, False)


def test_a_side_that_was_too_large_is_not_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory jumps, the power law is corrected by what was measured above the budget."""
    tried: list[int] = []

    def jumping(_: object, *arguments: object, **__: object) -> Peak:
        side = arguments[2]
        assert isinstance(side, int)
        tried.append(side)
        return Peak(side**2 * (1 if side <= 200 else 4), 1e-6)

    monkeypatch.setattr(budget, "peak_of", jumping)
    found = budget.largest_maps(300**2, 60.0, 64, "cpu")[-1]
    assert found.measured
    assert found.peak_bytes <= 300**2
    assert found.side <= 200
    assert found.side % 8 == 0
    assert max(tried) > 200


def test_a_budget_that_not_even_the_first_map_fits_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest map that was measured is named with its own bytes."""
    monkeypatch.setattr(budget, "peak_of", lambda *_, **__: Peak(10**9, 0.1))
    found = budget.largest_maps(10, 60.0, 64, "cpu")[-1]
    assert found.peak_bytes == 10**9
    assert found.side == 8
