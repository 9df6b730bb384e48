"""Times of one step: median, quartiles, ratios."""

import pytest

from scalednl.lab.records.timing import MIN_REPEATS, Timing


def test_median_and_quartiles() -> None:
    """Half of the runs are between the quartiles; one run is all three."""
    timing = Timing.of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert timing.median_ms == 3.0
    assert timing.quartiles_ms == pytest.approx((2.0, 4.0))
    assert str(timing) == "3.00 (2.00-4.00)"
    assert Timing.of([200.0]).quartiles_ms == (200.0, 200.0)


def test_a_ratio_needs_enough_runs() -> None:
    """A ratio is of medians, and refused from fewer than five runs of either side."""
    enough = Timing.of([2.0] * MIN_REPEATS)
    assert enough.ratio(Timing.of([1.0] * MIN_REPEATS)) == 2.0
    with pytest.raises(ValueError, match="at least 5 runs, got 4"):
        enough.ratio(Timing.of([1.0] * 4))


def test_extra_is_taken_round_by_round() -> None:
    """A round in which the machine was slow for both does not count as extra."""
    base, more = Timing.of([1.0, 9.0, 1.0]), Timing.of([1.5, 9.5, 1.5])
    assert more.extra(base).runs_ms == (0.5, 0.5, 0.5)
    assert more.extra(base).median_ms == 0.5
