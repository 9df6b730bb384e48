"""Intervals and tests over seeds, against answers known otherwise."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalednl.statistics import (
    EXACT_UP_TO,
    bootstrap_interval,
    contrast,
    paired,
    sign_flip_p,
    summarise,
)


def test_summary_of_known_values() -> None:
    """Mean and sample standard deviation are the textbook's; one value has no spread."""
    summary = summarise([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert summary.mean == 5.0
    assert summary.sd == pytest.approx(math.sqrt(32 / 7))
    assert summary.low is not None
    assert summary.high is not None
    assert summary.low < 5.0 < summary.high
    alone = summarise([3.0])
    assert (alone.mean, alone.sd, alone.low, alone.high, alone.n) == (3.0, None, None, None, 1)


def test_pairs_are_the_seeds_that_both_have() -> None:
    """A seed that only one side has is left out."""
    assert paired({0: 5.0, 1: 6.0, 3: 7.0}, {3: 1.0, 0: 2.0, 2: 9.0}) == [3.0, 6.0]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 10])
def test_equal_signs_give_the_smallest_p(n: int) -> None:
    """n differences of one sign are as unlikely as 2 of 2^n patterns: five never reach 0.05."""
    assert sign_flip_p([1.0 + i for i in range(n)]) == 2.0 ** (1 - n)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=7))
def test_sign_flip_counts_patterns(differences: list[int]) -> None:
    """p is the share of sign patterns that reach the sum seen, counted one by one."""
    seen = abs(sum(differences))
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    assert sign_flip_p(differences) == sum(abs(s) >= seen for s in sums) / len(sums)


def test_drawn_patterns_agree_with_all_of_them() -> None:
    """Where there are too many patterns to try, p is near that of the normal law."""
    values = list(np.random.default_rng(1).normal(0.5, 1.0, 40))
    assert len(values) > EXACT_UP_TO
    z = sum(values) / math.sqrt(sum(v * v for v in values))
    assert sign_flip_p(values) == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.01)


def test_false_alarms_are_as_rare_as_promised() -> None:
    """Of 400 sets of ten differences around 0, about one in twenty has p < 0.05."""
    draws = np.random.default_rng(2).normal(size=(400, 10))
    alarms = sum(sign_flip_p(list(row)) < 0.05 for row in draws)
    assert 8 <= alarms <= 34


def test_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    """Of 200 samples of 30, the 95 % interval holds the true mean in some 93 of 100."""
    draws = np.random.default_rng(3).normal(1.0, 2.0, size=(200, 30))
    intervals = [bootstrap_interval(list(row)) for row in draws]
    assert 0.88 <= sum(low <= 1.0 <= high for low, high in intervals) / 200 <= 0.98


def test_contrast_joins_summary_and_test() -> None:
    """A contrast has the summary of its differences, and their p."""
    found = contrast([0.5, 0.7, 0.4, 0.6, 0.9, 0.8])
    assert found.mean == pytest.approx(0.65)
    assert found.p == 2 / 64
    assert found.low is not None
    assert found.low > 0
