"""Runs are summed up by median and quartiles, and few of them give no ratio."""

import pytest

from scalednl.lab.bench.timing import MIN_REPEATS, Timing


def test_median_and_quartiles() -> None:
    """Half of the runs lie between the quartiles; one run is all three."""
    timing = Timing((0.005, 0.001, 0.002, 0.004, 0.003))
    assert timing.median == 0.003
    assert timing.quartiles == pytest.approx((0.002, 0.004))
    assert str(timing) == "3.00 (2.00-4.00)"
    assert Timing((0.2,)).quartiles == (0.2, 0.2)


def test_a_ratio_needs_enough_runs() -> None:
    """A ratio is of medians, and refused from fewer than five runs of either side."""
    enough = Timing((2.0,) * MIN_REPEATS)
    assert enough.ratio(Timing((1.0,) * MIN_REPEATS)) == 2.0
    with pytest.raises(ValueError, match="a ratio of 4 runs"):
        enough.ratio(Timing((1.0,) * 4))


def test_extra_is_taken_round_by_round() -> None:
    """A round in which the machine was slow for both does not count as extra."""
    base, more = Timing((1.0, 9.0, 1.0)), Timing((1.5, 9.5, 1.5))
    assert more.extra(base).runs == (0.5, 0.5, 0.5)
    assert more.extra(base).as_dict()["median_ms"] == 500.0
