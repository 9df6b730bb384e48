"""What may be said of repeated measurements: means, intervals, paired differences. No torch."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 4000
EXACT_UP_TO = 12
"""Pairs up to which every sign is tried; beyond, RESAMPLES of them are drawn"""
LEVEL = 0.95


@dataclass(frozen=True)
class Summary:
    """A mean with its spread, and the bootstrap interval of the mean where n allows one."""

    mean: float
    sd: float | None
    """Sample standard deviation; None of one value"""
    n: int
    low: float | None
    high: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)


@dataclass(frozen=True)
class Contrast(Summary):
    """Paired differences of one quantity, and how far they are from chance."""

    p: float
    """Two-sided, of the sign-flip test: how often signs by chance give a mean as large"""


def summarise(values: Sequence[float]) -> Summary:
    """Mean, standard deviation, and the interval of the mean."""
    assert values, "nothing to summarise"
    low, high = bootstrap_interval(values) if len(values) > 1 else (None, None)
    return Summary(_mean(values), _sd(values), len(values), low, high)


def contrast(differences: Sequence[float]) -> Contrast:
    """What paired differences say about their mean."""
    return Contrast(**summarise(differences).as_dict(), p=sign_flip_p(differences))


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> list[float]:
    """first - second for every seed that both have, in the order of the seeds."""
    return [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]


def sign_flip_p(differences: Sequence[float]) -> float:
    """The two-sided p of "the mean difference is 0", if each difference could have either sign.

    p = share of the 2^n sign patterns whose |mean| is at least the one seen. It assumes only that
    a difference and its negative are equally likely when there is no effect; with n pairs it
    cannot be below 2^(1-n), so fewer than 6 pairs never reach 0.05.
    """
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    assert n > 0, "no differences"
    if n <= EXACT_UP_TO:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
        reached = _reaches(signs @ values, values)
        return float(reached.mean())
    signs = np.random.default_rng(0).choice((1.0, -1.0), size=(RESAMPLES, n))
    # The pattern that was seen is one of those possible.
    return float((_reaches(signs @ values, values).sum() + 1) / (RESAMPLES + 1))


def _reaches(sums: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which sums are at least as far from 0 as the one seen, rounding aside."""
    slack = 1e-12 * float(np.abs(values).sum())
    return np.abs(sums) >= abs(float(values.sum())) - slack


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % percentile interval of the mean.

    Resamples come from a fixed seed, so the same values give the same interval. With few values it
    is narrower than it should be: n stands beside it wherever it is shown.
    """
    data = np.asarray(values, dtype=np.float64)
    assert len(data) > 0, "no values"
    draws = np.random.default_rng(0).integers(0, len(data), size=(RESAMPLES, len(data)))
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(data[draws].mean(-1), (tail, 100 - tail))
    return float(low), float(high)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _sd(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = _mean(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
