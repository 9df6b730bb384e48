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
from typing import Any

from scipy import special

from scalednl.lab.paper.tables import printed

CIFAR = ("cifar10", "cifar100")
TINY = "tiny-imagenet"
DATA = (*CIFAR, TINY)
ATTENTIONS = ("softmax", "scaled")
LEVEL = 0.95
MULTIPLE = 2.0
"""A difference is called larger than the noise from this multiple of it on"""


@dataclass(frozen=True)
class Mean:
    """A printed test error in percent, averaged over `seeds` runs."""

    error: float
    seeds: int


Terms = tuple[tuple[float, Mean], ...]
"""A sum of weight * mean"""


def total(terms: Terms) -> float:
    """The value of a sum, without the rounding errors of binary fractions."""
    return round(math.fsum(weight * mean.error for weight, mean in terms), 6)


def noise_factor(terms: Terms) -> float:
    """The standard deviation of a sum, if that of one run is 1."""
    return math.sqrt(math.fsum(weight**2 / mean.seeds for weight, mean in terms))


def view_mean(data: str, attention: str, view: str) -> Mean:
    """A cell of Table 1; `view` is "base", "magnitude" or "direction"."""
    table = printed("table1_importance")
    row = _row(table["rows"], dataset=data, attention=attention)
    return Mean(row["error"][table["columns"].index(view)], table["seeds"])


def init_mean(data: str, attention: str, init: str) -> Mean:
    """A cell of Table 2; `init` is "he", "std=0.01" or "std=0.0"."""
    table = printed("table2_initialization")
    row = _row(table["rows"], dataset=data, attention=attention)
    return Mean(row["error"][table["columns"].index(init)], row["seeds"])


def heads_mean(data: str, attention: str, heads: int) -> Mean:
    """A cell of Table 3; 0 heads is the network without blocks."""
    table = printed("table3_heads")
    errors = table[attention][f"{data}_error"]
    return Mean(errors[table["heads"].index(heads)], table["seeds"])


def backbone_mean(data: str, model: str, attention: str) -> Mean:
    """A cell of Table 4."""
    table = printed("table4_backbones")
    row = _row(table["rows"], dataset=data, model=model)
    return Mean(row["error"][table["columns"].index(attention)], row["seeds"])


def _row(rows: Sequence[dict[str, Any]], **wanted: str) -> dict[str, Any]:
    (row,) = (row for row in rows if all(row[key] == value for key, value in wanted.items()))
    return row


@dataclass(frozen=True)
class Placebo:
    """Two printed means of the same training: their difference is noise and nothing else."""

    name: str
    data: str
    terms: Terms

    @property
    def difference(self) -> float:
        """First minus second, in points."""
        return total(self.terms)


@cache
def placebos() -> tuple[Placebo, ...]:
    """Every pair of printed cells that describes one training."""
    zero = tuple(
        Placebo(
            "Table 2, sigma = 0: softmax − scaled",
            data,
            tuple(
                (sign, init_mean(data, attention, "std=0.0"))
                for sign, attention in zip((1, -1), ATTENTIONS, strict=True)
            ),
        )
        for data in DATA
    )
    model = printed("table3_heads")["model"]
    heads = printed("table4_backbones")["heads"]
    printed_twice = tuple(
        Placebo(
            f"softmax, {heads} heads: Table 3 − Table 4",
            data,
            (
                (1, heads_mean(data, "softmax", heads)),
                (-1, backbone_mean(data, model, "softmax")),
            ),
        )
        for data in CIFAR
    )
    return zero + printed_twice


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


@dataclass(frozen=True)
class PositionShare:
    """How much of a block's printed gain the sigma = 0 column reaches without attention."""

    data: str
    attention: str
    gain: Terms
    """No blocks minus 1 head"""
    position: Terms
    """No blocks minus sigma = 0, the mean of both attentions"""
    beyond: Terms
    """Sigma = 0 minus 1 head"""

    @property
    def share(self) -> float:
        """The part of the gain that belongs to the encoding, if the printed runs had it."""
        return total(self.position) / total(self.gain)


@cache
def position_shares() -> tuple[PositionShare, ...]:
    """For each CIFAR data set and attention."""
    return tuple(_position_share(data, attention) for data in CIFAR for attention in ATTENTIONS)


def _position_share(data: str, attention: str) -> PositionShare:
    plain = heads_mean(data, attention, 0)
    block = heads_mean(data, attention, 1)
    dead = [init_mean(data, name, "std=0.0") for name in ATTENTIONS]
    halves = tuple((1 / len(dead), mean) for mean in dead)
    return PositionShare(
        data,
        attention,
        gain=((1, plain), (-1, block)),
        position=((1, plain), *((-weight, mean) for weight, mean in halves)),
        beyond=(*halves, (-1, block)),
    )
