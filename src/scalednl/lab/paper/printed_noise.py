"""The noise of the printed numbers, estimated from the printed numbers alone. Imports no torch.

The paper prints means over seeds and no standard deviations. Some of its cells are nevertheless two
means of one and the same training (`placebos`), so their differences are pure noise:

- With sigma = 0 (Table 2) theta, phi, g and out are zero and stay zero, so a softmax network and a
  scaled network are the same function with the same gradients: the plain network with the position
  encoding, if the printed runs had it as the authors' release does. A test proves it.
- Tables 3 and 4 both print softmax blocks of 4 heads in PreResNet56.

Every quantity here is a sum of weight * printed mean. If one run has the standard deviation s, its
noise is s sqrt(sum of weight^2 / seeds): s sqrt(2 / 10) for a difference of two 10-seed means, and
sqrt(2) times that for an interaction of four.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from scipy import special

from scalednl.lab.paper.tables import DATA, Mean, mean_at
from scalednl.lab.recipes import CIFAR

LEVEL = 0.95
MULTIPLE = 2.0
"""A difference is called larger than the noise from this multiple of it on"""

Terms = tuple[tuple[float, Mean], ...]
"""A sum of weight * mean"""


def total(terms: Terms) -> float:
    """The value of a sum, without the rounding errors of binary fractions."""
    return round(math.fsum(weight * mean.error for weight, mean in terms), 6)


def noise_factor(terms: Terms) -> float:
    """The standard deviation of a sum, if that of one run is 1."""
    return math.sqrt(math.fsum(weight**2 / mean.seeds for weight, mean in terms))


@dataclass(frozen=True)
class PrintedSum:
    """A sum of printed means of one data set, in points of test error."""

    data: str
    terms: Terms

    @property
    def difference(self) -> float:
        """Its value."""
        return total(self.terms)

    @property
    def noise(self) -> float:
        """One standard deviation, from the placebos of its data set."""
        return noise(self.data).of(self.terms)


@dataclass(frozen=True)
class Placebo(PrintedSum):
    """Two printed means of the same training: their difference is noise and nothing else."""

    name: str


@cache
def placebos() -> tuple[Placebo, ...]:
    """Every pair of printed cells that describes one training."""
    zero, third, fourth = "table2_initialization", "table3_heads", "table4_backbones"
    dead = [
        Placebo(
            data,
            (
                (1, mean_at(zero, data, "softmax", "std=0.0")),
                (-1, mean_at(zero, data, "scaled", "std=0.0")),
            ),
            "Table 2, sigma = 0: softmax − scaled",
        )
        for data in DATA
    ]
    printed_twice = [
        Placebo(
            data,
            (
                (1, mean_at(third, data, "softmax", "4 heads")),
                (-1, mean_at(fourth, data, "4 heads", "softmax")),
            ),
            "softmax, 4 heads: Table 3 − Table 4",
        )
        for data in CIFAR
    ]
    return (*dead, *printed_twice)


@dataclass(frozen=True)
class Noise:
    """The standard deviation of one run, as the placebos imply it.

    sd^2 = mean of (difference / noise factor)^2 over the placebos. The true mean of a placebo is 0,
    so n of them give n degrees of freedom, and n sd^2 / true^2 follows the chi-square law.
    """

    run_sd: float
    placebos: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % chi-square interval of `run_sd`."""
        tail = (1 - LEVEL) / 2
        squares = self.placebos * self.run_sd**2
        largest, smallest = (special.chdtri(self.placebos, p) for p in (tail, 1 - tail))
        return math.sqrt(squares / largest), math.sqrt(squares / smallest)

    def of(self, terms: Terms) -> float:
        """The noise of a sum of means: one standard deviation, in points."""
        return self.run_sd * noise_factor(terms)

    def p(self, terms: Terms) -> float:
        """Two-sided p of "the true sum is 0": Student's t, one degree of freedom per placebo."""
        return float(2 * special.stdtr(self.placebos, -abs(total(terms)) / self.of(terms)))


def estimate(found: Sequence[Placebo]) -> Noise:
    """The noise that these placebos imply."""
    assert found, "no placebos"
    squares = [(placebo.difference / noise_factor(placebo.terms)) ** 2 for placebo in found]
    return Noise(math.sqrt(math.fsum(squares) / len(squares)), len(squares))


@cache
def noise(data: str) -> Noise:
    """The noise on a data set: the two CIFARs pooled, Tiny-ImageNet by itself.

    Tiny-ImageNet has other networks, fine-tuning and 3 seeds, and one placebo only.
    """
    group = CIFAR if data in CIFAR else (data,)
    return estimate([placebo for placebo in placebos() if placebo.data in group])


def pair_of_means(seeds: int) -> Terms:
    """A difference of two means over `seeds` runs, for its noise."""
    return (1, Mean(0.0, seeds)), (-1, Mean(0.0, seeds))


def left_out_range() -> tuple[float, float]:
    """The smallest and largest CIFAR noise (of one run) when any one placebo is left out."""
    found = [placebo for placebo in placebos() if placebo.data in CIFAR]
    sds = [estimate([p for p in found if p is not out]).run_sd for out in found]
    return min(sds), max(sds)
