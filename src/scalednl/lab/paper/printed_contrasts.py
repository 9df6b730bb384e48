"""Every printed difference that a claim of the paper rests on, with its error bar. No torch."""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import msgspec

from scalednl.lab.paper.printed_noise import MULTIPLE, PrintedSum, noise, noise_factor
from scalednl.lab.paper.rules import FIXED_LEVEL, POWER, RULES
from scalednl.lab.paper.tables import BLOCKS, TablePlace, content, mean_at, printed, printed_means
from scalednl.lab.recipes import CIFAR
from scalednl.lab.stats import seeds_per_group, two_group_power

NoiseAnswer = Literal["larger than 2 x noise", "not distinguishable from the placebo"]
LARGER: NoiseAnswer = "larger than 2 x noise"
SAME: NoiseAnswer = "not distinguishable from the placebo"
Claimed = Literal["above 0", "comparable"]
ASSUMED_SD = {data: RULES["paper"].run_sd[data] for data in CIFAR}
"""Points, of one run. An assumption: the paper prints none. For scale: He et al. (ECCV 2016) print
0.14 and 0.22 over 5 runs of the 1001-layer pre-activation network"""


@dataclass(frozen=True)
class PrintedContrast(PrintedSum):
    """A sum of printed means that should be above 0 if the claim is true."""

    table: str
    name: str
    model: str
    claimed: Claimed = "above 0"
    """ "comparable": the paper claims that there is no notable difference"""

    @property
    def assumed_noise(self) -> float | None:
        """The same from `ASSUMED_SD`; None for Tiny-ImageNet, where nothing is assumed."""
        sd = ASSUMED_SD.get(self.data)
        return None if sd is None else sd * noise_factor(self.terms)

    @property
    def p(self) -> float:
        """Two-sided, from Student's t with one degree of freedom per placebo."""
        return noise(self.data).p(self.terms)

    @property
    def answer(self) -> NoiseAnswer:
        """Whether the size of the difference is beyond twice the noise."""
        return LARGER if self.is_larger else SAME

    @property
    def is_larger(self) -> bool:
        """Whether the answer is that it is."""
        return abs(self.difference) > MULTIPLE * self.noise


@dataclass(frozen=True)
class ContrastEntry:
    """An entry of `contrasts.json`: a contrast in every data set and network of a table."""

    table: str
    name: str
    """{model} stands for the network"""
    terms: tuple[tuple[int, str, str], ...]
    """Weight, row and column"""
    claimed: Claimed = "above 0"


@cache
def printed_contrasts() -> tuple[PrintedContrast, ...]:
    """All contrasts, in the paper's order."""
    return tuple(
        PrintedContrast(
            data,
            tuple(
                (weight, printed_means(entry.table)[TablePlace(data, model, row, column)])
                for weight, row, column in entry.terms
            ),
            entry.table,
            entry.name.format(model=model),
            model,
            entry.claimed,
        )
        for entry in msgspec.json.decode(content("contrasts.json"), type=tuple[ContrastEntry, ...])
        for data, model in dict.fromkeys((at.data, at.model) for at in printed_means(entry.table))
    )


@dataclass(frozen=True)
class PositionShare:
    """How much of a block's printed gain the sigma = 0 column reaches without attention."""

    data: str
    attention: str
    gain: PrintedSum
    """No blocks minus 1 head"""
    position: PrintedSum
    """No blocks minus sigma = 0, the mean of both attentions"""
    beyond: PrintedSum
    """Sigma = 0 minus 1 head"""

    @property
    def share(self) -> float:
        """The part of the gain that belongs to the encoding, if the printed runs had it."""
        return self.position.difference / self.gain.difference


@cache
def position_shares() -> tuple[PositionShare, ...]:
    """For each CIFAR data set and attention."""
    return tuple(_position_share(data, attention) for data in CIFAR for attention in BLOCKS)


def _position_share(data: str, attention: str) -> PositionShare:
    plain = mean_at("table3_heads", data, attention, "0 heads")
    block = mean_at("table3_heads", data, attention, "1 head")
    dead = [mean_at("table2_initialization", data, name, "std=0.0") for name in BLOCKS]
    return PositionShare(
        data,
        attention,
        gain=PrintedSum(data, ((1, plain), (-1, block))),
        position=PrintedSum(data, ((1, plain), *((-0.5, mean) for mean in dead))),
        beyond=PrintedSum(data, (*((0.5, mean) for mean in dead), (-1, block))),
    )


@dataclass(frozen=True)
class DesignPower:
    """What the printed number of seeds can show of one printed gap, at the assumed deviation."""

    data: str
    heads: int
    gap: float
    run_sd: float
    printed_seeds: int

    @property
    def needed(self) -> int | None:
        """Seeds per group for 80 % power."""
        return seeds_per_group(self.gap / self.run_sd, FIXED_LEVEL, POWER)

    @property
    def power(self) -> float:
        """The power of the printed number of seeds."""
        return two_group_power(self.printed_seeds, self.gap / self.run_sd, FIXED_LEVEL)


@cache
def design_powers() -> tuple[DesignPower, ...]:
    """The gaps of Table 3 between softmax and scaled blocks of the same number of heads."""
    gaps = {(c.name, c.data): c for c in printed_contrasts() if c.table == "table3_heads"}
    seeds = printed("table3_heads")["seeds"]
    return tuple(
        DesignPower(data, heads, found.difference, ASSUMED_SD[data], seeds)
        for data in CIFAR
        for heads, words in ((1, "1 head"), (2, "2 heads"), (4, "4 heads"))
        if (found := gaps[f"{words}: softmax − scaled", data])
    )
