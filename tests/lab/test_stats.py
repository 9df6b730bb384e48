"""Intervals, tests and power, against SciPy's own functions and by simulation."""

import itertools
import math
from statistics import stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from scalednl.lab import stats
from scalednl.lab.paper.rules import RULES

VALUES = [0.5, 0.7, -0.4, 0.6, 0.9, 0.8]


def test_summary_of_known_values() -> None:
    """Mean, deviation and interval are SciPy's; one value has no spread."""
    summary = stats.summarise(VALUES)
    error = stdev(VALUES) / math.sqrt(6)
    low, high = scipy_stats.t.interval(0.95, 5, loc=np.mean(VALUES), scale=error)
    assert summary.sd == pytest.approx(stdev(VALUES))
    assert summary.low == pytest.approx(low)
    assert summary.high == pytest.approx(high)
    alone = stats.summarise([3.0])
    assert (alone.mean, alone.sd, alone.low, alone.high, alone.n) == (3.0, None, None, None, 1)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12), st.floats(-2, 2))
def test_t_test_is_scipys(values: list[float], null: float) -> None:
    """Two-sided p, for any values that have a spread; none without."""
    found = stats.estimate(values)
    if found is None:
        assert np.std(values) <= 1e-8 * max(1.0, np.abs(values).max())
        return
    assert found.p(null) == pytest.approx(scipy_stats.ttest_1samp(values, null).pvalue, abs=1e-9)


@pytest.mark.parametrize("margin", [0.2, 1.0, 3.0])
def test_equivalence_is_two_one_sided_tests(margin: float) -> None:
    """P_inside is the larger of SciPy's two one-sided p values."""
    found = stats.estimate(VALUES)
    assert found is not None
    below = scipy_stats.ttest_1samp(VALUES, margin, alternative="less").pvalue
    above = scipy_stats.ttest_1samp(VALUES, -margin, alternative="greater").pvalue
    assert found.p_inside(margin) == pytest.approx(max(below, above))
    low, high = found.interval(0.9)
    assert (found.p_inside(margin) < 0.05) == (low > -margin and high < margin)


@pytest.mark.parametrize("n", [3, 6, 10])
def test_intervals_cover_as_often_as_they_say(n: int) -> None:
    """Of 4,000 samples, the 95 % interval holds the true mean in 93 to 97 of 100."""
    draws = np.random.default_rng(n).normal(1.0, 2.0, size=(4000, n))
    summaries = [stats.summarise(list(row)) for row in draws]
    covered = sum(s.low <= 1.0 <= s.high for s in summaries if s.low is not None and s.high)
    assert 0.93 <= covered / 4000 <= 0.97


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_looking_several_times_raises_few_false_alarms(rows: int) -> None:
    """Looks at 4, 6, 9, 12 seeds, row after row, are wrong in at most 6 % of 4,000 null cases."""
    rule, cases = RULES["lite"], 4000
    spread = np.array([1.0, 1.5, 0.8, 1.2])[:rows, None]
    draws = np.random.default_rng(7).normal(size=(cases, rows, rule.looks[-1])) * spread
    state, alarms, careless = [0] * rows, np.zeros(cases, bool), np.zeros(cases, bool)
    for looks in (rule.looks[:2], rule.looks[2:3], rule.looks[3:]):
        for row in range(rows):
            for look in looks:
                state[row] = look
                p = _pooled_p(draws, state)
                alarms |= p < rule.level(rows)
                careless |= p < 0.05
    assert 0.03 <= alarms.mean() <= 0.06
    assert careless.mean() > 0.1


def _pooled_p(draws: NDArray[np.float64], seeds: list[int]) -> NDArray[np.float64]:
    """`pooled` and `p` for many cases at once; checked against them for the first."""
    used = [(draws[:, row, :n], n) for row, n in enumerate(seeds) if n]
    k = len(used)
    mean = sum(x.mean(1) for x, _ in used) / k
    variances = [x.var(1, ddof=1) / n / k**2 for x, n in used]
    total = sum(variances)
    df = total**2 / sum(v**2 / (n - 1) for v, (_, n) in zip(variances, used, strict=True))
    p = 2 * scipy_stats.t.sf(np.abs(mean) / np.sqrt(total), df)
    one = [stats.estimate(list(x[0])) for x, _ in used]
    assert p[0] == pytest.approx(stats.pooled([e for e in one if e is not None]).p())
    return p


@pytest.mark.parametrize("sizes", [(6, 4), (10, 3), (5, 5)])
def test_pooled_means_cover_as_often_as_they_say(sizes: tuple[int, int]) -> None:
    """Rows of different spread and size, pooled: coverage within 93 to 97 of 100."""
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(3000):
        rows = [
            stats.estimate(list(rng.normal(m, sd, n)))
            for m, sd, n in zip((1.0, -0.5), (0.5, 1.5), sizes, strict=True)
        ]
        low, high = stats.pooled([row for row in rows if row is not None]).interval()
        covered += low <= 0.25 <= high
    assert 0.93 <= covered / 3000 <= 0.97


def test_pooling_is_welchs() -> None:
    """Error and degrees of freedom of a mean of two means are those of Welch's t test."""
    a, b = [1.0, 2.0, 4.0, 3.5], [0.1, 0.5, 0.2]
    first, second = stats.estimate(a), stats.estimate([-v for v in b])
    assert first is not None
    assert second is not None
    theirs = scipy_stats.ttest_ind(a, b, equal_var=False)
    mine = stats.pooled([first, second])
    assert mine.df == pytest.approx(theirs.df)
    assert mine.p() == pytest.approx(theirs.pvalue)


def test_pairs_are_the_seeds_that_both_have() -> None:
    """A seed that only one side has is left out."""
    assert stats.paired({0: 5.0, 1: 6.0, 3: 7.0}, {3: 1.0, 0: 2.0, 2: 9.0}) == [3.0, 6.0]


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=7))
def test_sign_flip_counts_patterns(differences: list[int]) -> None:
    """P is the share of sign patterns that reach the sum seen, counted one by one."""
    seen = abs(sum(differences))
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    assert stats.sign_flip_p(differences) == sum(abs(s) >= seen for s in sums) / len(sums)


@pytest.mark.parametrize("n", [6, 9, 12])
def test_sign_flip_is_scipys_permutation_test(n: int) -> None:
    """All patterns of signs, as SciPy tries them."""
    values = np.random.default_rng(n).normal(0.5, 1.0, n)
    theirs = scipy_stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    assert stats.sign_flip_p(list(values)) == pytest.approx(theirs.pvalue)


def test_drawn_patterns_agree_with_the_normal_law() -> None:
    """Where there are too many patterns to try, p is near that of the normal law."""
    values = list(np.random.default_rng(1).normal(0.5, 1.0, 40))
    assert len(values) > stats.EXACT_UP_TO
    z = sum(values) / math.sqrt(sum(v * v for v in values))
    assert stats.sign_flip_p(values) == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.01)


@pytest.mark.parametrize(("k", "n"), [(0, 8), (3, 8), (8, 8), (1, 40)])
def test_binomial_answers_are_scipys(k: int, n: int) -> None:
    """The interval is Clopper and Pearson's, the tails the binomial law's."""
    theirs = scipy_stats.binomtest(k, n).proportion_ci(0.9, method="exact")
    assert stats.binomial_interval(k, n, 0.9) == pytest.approx((theirs.low, theirs.high))
    at_most = scipy_stats.binomtest(k, n, 1 / 3, alternative="less").pvalue
    at_least = scipy_stats.binomtest(k, n, 1 / 3, alternative="greater").pvalue
    assert stats.binomial_tails(k, n, 1 / 3) == pytest.approx((at_most, at_least))


def test_none_of_eight_refutes_one_in_three() -> None:
    """The 90 % interval of 0 of 8 is below 1/3; that of 0 of 7 is not."""
    assert stats.binomial_interval(0, 8, 0.9)[1] < 1 / 3
    assert stats.binomial_interval(0, 7, 0.9)[1] > 1 / 3


def test_holm_by_hand() -> None:
    """The smallest p counts for all, the next for the rest, and never less than one before."""
    assert stats.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert stats.holm([0.5, 0.9]) == [1.0, 1.0]
    assert stats.holm([]) == []


@pytest.mark.parametrize(("n", "effect", "level"), [(6, 1.0, 0.05), (10, 0.5, 0.017), (4, 3, 0.05)])
def test_power_is_that_of_the_noncentral_t(n: int, effect: float, level: float) -> None:
    """Power equals SciPy's noncentral t, and what simulation finds."""
    critical = scipy_stats.t.ppf(1 - level / 2, n - 1)
    law = scipy_stats.nct(n - 1, effect * math.sqrt(n))
    expected = law.sf(critical) + law.cdf(-critical)
    assert stats.power(n, effect, level) == pytest.approx(expected, abs=1e-6)
    draws = np.random.default_rng(5).normal(effect, 1.0, size=(20000, n))
    seen = (scipy_stats.ttest_1samp(draws, 0, axis=1).pvalue < level).mean()
    assert stats.power(n, effect, level) == pytest.approx(seen, abs=0.015)


def test_seeds_needed_are_the_smallest() -> None:
    """One seed less does not reach it; twice the spread needs more; an effect of 0 never does."""
    n = stats.seeds_for_power(0.5, 1.0, 0.05, 0.8)
    assert n is not None
    assert stats.power(n, 0.5, 0.05) >= 0.8 > stats.power(n - 1, 0.5, 0.05)
    wide = stats.seeds_for_power(0.5, 2.0, 0.05, 0.8)
    assert wide is not None
    assert wide > 3 * n
    stays = stats.seeds_if_mean_stays(0.5, 1.0, 0.05)
    assert stays is not None
    for seeds, reached in ((stays, True), (stays - 1, False)):
        reach = scipy_stats.t.ppf(0.975, seeds - 1) / math.sqrt(seeds)
        assert (reach < 0.5) == reached
    assert stats.seeds_if_mean_stays(0.0, 1.0, 0.05) is None
    assert stats.seeds_if_mean_stays(1e-9, 1.0, 0.05) is None


def test_the_papers_own_gaps_need_the_seeds_that_are_known() -> None:
    """With a run's deviation of 0.17, gaps of 0.09 and 0.21 need about 55 and 13 seeds."""
    sd = 0.17 * math.sqrt(2)
    assert stats.seeds_for_power(0.09, sd, 0.05, 0.8) == pytest.approx(58, abs=4)
    assert stats.seeds_for_power(0.21, sd, 0.05, 0.8) == pytest.approx(13, abs=1)


def test_equivalence_seeds_reach_their_power() -> None:
    """With so many seeds and no true difference, TOST decides in about 80 of 100 simulations."""
    n = stats.seeds_for_equivalence(1.0, 1.0, 0.05, 0.8)
    assert n is not None
    draws = np.random.default_rng(9).normal(0.0, 1.0, size=(3000, n))
    inside = 0
    for row in draws:
        found = stats.estimate(list(row))
        inside += found is not None and found.p_inside(1.0) < 0.05
    assert 0.77 <= inside / 3000 <= 0.86


@pytest.mark.parametrize("n", [3, 6, 12])
def test_what_is_detectable_has_the_power_asked_for(n: int) -> None:
    """The difference found has a power of 80 %, in the unit of the deviation."""
    found = stats.detectable(n, 2.0, 0.017, 0.8)
    assert stats.power(n, found / 2.0, 0.017) == pytest.approx(0.8, abs=1e-3)


def test_upper_limit_of_a_deviation() -> None:
    """In 80 of 100 samples the true deviation is below the limit."""
    draws = np.random.default_rng(3).normal(0.0, 1.0, size=(4000, 5))
    covered = np.mean([stats.upper_sd(float(row.std(ddof=1)), 4) >= 1.0 for row in draws])
    assert 0.77 <= covered <= 0.83


def test_what_pairing_buys_and_who_is_better() -> None:
    """Correlation is Pearson's, None for constants; improvement counts pairs, ties half."""
    a, b = [1.0, 2.0, 3.0], [2.0, 2.5, 4.5]
    assert stats.correlation(a, b) == pytest.approx(scipy_stats.pearsonr(a, b).statistic)
    assert stats.correlation(a, [1.0, 1.0, 1.0]) is None
    theirs = scipy_stats.mannwhitneyu(b, a).statistic / 9
    assert stats.probability_of_improvement(a, b) == pytest.approx(theirs)


def test_equal_values_have_no_estimate() -> None:
    """Where all values are equal, or there is one, nothing can be tested."""
    assert stats.estimate([0.3, 0.3, 0.3]) is None
    assert stats.estimate([1.0]) is None
    assert stats.contrast([0.3, 0.3]).p is None


def test_seeds_per_group_are_the_textbook_ones() -> None:
    """Two groups need 64, 26 and 17 runs each for effects of 0.5, 0.8 and 1 deviation."""
    assert [stats.seeds_per_group(effect, 0.05, 0.8) for effect in (0.5, 0.8, 1.0)] == [64, 26, 17]
    assert stats.two_group_power(63, 0.5, 0.05) < 0.8 <= stats.two_group_power(64, 0.5, 0.05)
    with pytest.raises(ValueError, match="effect=0 must be above 0"):
        stats.seeds_per_group(0, 0.05, 0.8)
