"""Statistics of repeated measurements: Student's t intervals, tests, power. No torch.

Distributions come from `scipy.special`, which loads in a fraction of the time of `scipy.stats`;
tests hold every function to its counterpart there.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

LEVEL = 0.95
"""Coverage of the intervals that are shown"""
SIGN_FLIP_FROM = 6
"""Fewer differences cannot reach p < 0.05 by their signs"""
EXACT_UP_TO = 14
"""Differences up to which every pattern of signs is tried; beyond, RESAMPLES are drawn"""
RESAMPLES = 9999
MOST_SEEDS = 1_000
"""Where the search for a number of seeds gives up"""


@dataclass(frozen=True)
class Summary:
    """A mean with its spread and the 95 % t interval of the mean."""

    mean: float
    sd: float | None
    """Sample standard deviation; None if n == 1"""
    n: int
    low: float | None
    high: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)


@dataclass(frozen=True)
class Contrast(Summary):
    """Paired differences, and the p of "their mean is 0"."""

    p: float | None
    """Two-sided, of the t test; None if n == 1 or all differences are equal"""


@dataclass(frozen=True)
class Estimate:
    """A mean, its standard error and the degrees of freedom of that error."""

    mean: float
    error: float
    df: float

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The two-sided interval of the mean."""
        reach = self.error * special.stdtrit(self.df, (1 + level) / 2)
        return self.mean - reach, self.mean + reach

    def p(self, null: float = 0.0) -> float:
        """Two-sided p of "the mean is `null`"."""
        return 2 * float(special.stdtr(self.df, -abs(self.mean - null) / self.error))

    def p_inside(self, margin: float) -> float:
        """P of "the mean is outside ±margin" (two one-sided tests): small if it is inside."""
        above = special.stdtr(self.df, (self.mean - margin) / self.error)
        below = special.stdtr(self.df, (-self.mean - margin) / self.error)
        return float(max(above, below))


def summarise(values: Sequence[float]) -> Summary:
    """Mean, standard deviation, and the interval of the mean."""
    n, mean = len(values), fmean(values)
    if n == 1:
        return Summary(mean, None, 1, None, None)
    sd = stdev(values)
    low, high = Estimate(mean, sd / math.sqrt(n), n - 1).interval()
    return Summary(mean, sd, n, float(low), float(high))


def contrast(differences: Sequence[float]) -> Contrast:
    """The mean of paired differences, its spread and its p."""
    found = estimate(differences)
    return Contrast(**summarise(differences).as_dict(), p=None if found is None else found.p())


def estimate(values: Sequence[float]) -> Estimate | None:
    """Mean and error of values; None where they have no spread that could be estimated."""
    if len(values) < 2:
        return None
    sd = stdev(values)
    # Equal values that differ by rounding alone have no spread either.
    if sd <= 1e-9 * max(1.0, *(abs(value) for value in values)):
        return None
    return Estimate(fmean(values), sd / math.sqrt(len(values)), len(values) - 1)


def pooled(estimates: Sequence[Estimate]) -> Estimate:
    """The plain mean of independent means; degrees of freedom by Welch and Satterthwaite."""
    assert estimates, "nothing to pool"
    k = len(estimates)
    variances = [(one.error / k) ** 2 for one in estimates]
    total = math.fsum(variances)
    df = total**2 / math.fsum(v**2 / one.df for v, one in zip(variances, estimates, strict=True))
    return Estimate(fmean(one.mean for one in estimates), math.sqrt(total), df)


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> list[float]:
    """first - second for every seed that both have, in the order of the seeds."""
    return [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]


def sign_flip_p(differences: Sequence[float]) -> float:
    """The two-sided p of "the mean difference is 0", if each difference could have either sign.

    p = share of the 2^n sign patterns whose |mean| is at least the one seen. With n pairs it cannot
    be below 2^(1-n). Beyond EXACT_UP_TO pairs, patterns are drawn from a fixed seed.
    """
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    assert n > 0, "no differences"
    if n <= EXACT_UP_TO:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
        return float(_reaches(signs @ values, values).mean())
    signs = np.random.default_rng(0).choice((1.0, -1.0), size=(RESAMPLES, n))
    # The pattern that was seen is one of those possible.
    return float((_reaches(signs @ values, values).sum() + 1) / (RESAMPLES + 1))


def _reaches(sums: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which sums are at least as far from 0 as the one seen, rounding aside."""
    slack = 1e-12 * float(np.abs(values).sum())
    return np.abs(sums) >= abs(float(values.sum())) - slack


def correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Pearson's correlation of paired values; None where one is constant."""
    if len(first) < 3 or min(np.ptp(first), np.ptp(second)) == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def probability_of_improvement(better: Sequence[float], worse: Sequence[float]) -> float:
    """P(a < b) for a random run of the first and one of the second; ties count half."""
    a, b = np.asarray(better)[:, None], np.asarray(worse)[None]
    return float(((a < b) + 0.5 * (a == b)).mean())


def binomial_interval(k: int, n: int, level: float) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share, k of n."""
    tail = (1 - level) / 2
    low = 0.0 if k == 0 else float(special.betaincinv(k, n - k + 1, tail))
    high = 1.0 if k == n else float(special.betaincinv(k + 1, n - k, 1 - tail))
    return low, high


def binomial_tails(k: int, n: int, share: float) -> tuple[float, float]:
    """P(at most k) and P(at least k) of n, if each happens with this share."""
    at_least = 1.0 if k == 0 else float(special.bdtrc(k - 1, n, share))
    return float(special.bdtr(k, n, share)), at_least


def holm(ps: Sequence[float], most: float = 1.0) -> list[float]:
    """Holm's adjusted p values, in the order given, none above `most`."""
    adjusted = [0.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        largest = max(largest, min(most, (len(ps) - rank) * ps[index]))
        adjusted[index] = largest
    return adjusted


def upper_sd(sd: float, df: float, confidence: float = 0.8) -> float:
    """The upper limit of a standard deviation that was estimated with `df` degrees of freedom."""
    return sd * math.sqrt(df / float(special.chdtri(df, confidence)))


def power(n: int, effect: float, level: float) -> float:
    """Chance that n differences, whose mean is `effect` standard deviations, give p < level."""
    return _t_power(n - 1, effect * math.sqrt(n), level)


def two_group_power(n: int, effect: float, level: float) -> float:
    """The same for two independent groups of n values, whose means differ by `effect`."""
    return _t_power(2 * n - 2, effect * math.sqrt(n / 2), level)


def _t_power(df: int, shift: float, level: float) -> float:
    """Chance that a two-sided t test gives p < level, if t has this noncentrality."""
    critical = float(special.stdtrit(df, 1 - level / 2))
    # SciPy gives NaN for tails below 1e-9.
    below, other = np.nan_to_num(special.nctdtr(df, shift, (critical, -critical)))
    return float(1 - below + other)


def seeds_if_mean_stays(distance: float, sd: float, level: float, tails: int = 2) -> int | None:
    """Smallest n at which t sd / sqrt(n) is below `distance`; None beyond MOST_SEEDS."""

    def decides(n: int) -> bool:
        return float(special.stdtrit(n - 1, 1 - level / tails)) * sd / math.sqrt(n) < distance

    return _smallest(decides) if distance > 0 else None


def seeds_for_power(effect: float, sd: float, level: float, wanted: float) -> int | None:
    """Smallest n that sees a difference of `effect` with this chance; None beyond MOST_SEEDS."""
    return _smallest(lambda n: power(n, effect / sd, level) >= wanted)


def seeds_per_group(effect: float, level: float, wanted: float) -> int | None:
    """The same for each of two independent groups, in standard deviations of one value."""
    if effect <= 0:
        raise ValueError(f"effect={effect} must be above 0")
    return _smallest(lambda n: two_group_power(n, effect, level) >= wanted)


def seeds_for_equivalence(margin: float, sd: float, level: float, wanted: float) -> int | None:
    """Smallest n that puts a true difference of 0 inside ±margin with this chance (TOST)."""

    def decides(n: int) -> bool:
        ends = special.stdtrit(n - 1, 1 - level) + special.stdtrit(n - 1, (1 + wanted) / 2)
        return float(ends) * sd / math.sqrt(n) <= margin

    return _smallest(decides)


def detectable(n: int, sd: float, level: float, wanted: float) -> float:
    """The smallest true difference that n differences show with this chance."""
    critical = special.stdtrit(n - 1, 1 - level / 2)
    return sd * float(special.nctdtrinc(n - 1, 1 - wanted, critical)) / math.sqrt(n)


def _smallest(decides: Callable[[int], bool]) -> int | None:
    """The smallest n >= 2 for which it is true, if it stays true from there."""
    numbers = range(2, MOST_SEEDS + 1)
    found = bisect_left(numbers, True, key=decides)
    return numbers[found] if found < len(numbers) else None
