"""The rule that turns an estimate into one of four answers, and what would settle an open one.

| kind | holds | does not hold | no difference that matters |
|---|---|---|---|
| better, robust | interval above 0 | below 0 | inside ±margin (TOST) |
| comparable | inside ±margin (TOST) | interval outside ±margin | |
| severe | interval above the margin | below it | |
| always | every row holds | a row is refuted | |
| often | binomial interval above 1/3 | below it | |

Everything else is open.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

from scalednl.lab.paper.rules import FIXED_LEVEL, OFTEN, OFTEN_SEEDS, POWER
from scalednl.lab.stats import (
    Estimate,
    binomial_interval,
    binomial_tails,
    seeds_for_equivalence,
    seeds_for_power,
    seeds_if_mean_stays,
)

Kind = Literal["better", "robust", "comparable", "severe", "always", "often"]
Answer = Literal["holds", "does not hold", "no difference that matters", "open"]
HOLDS: Answer = "holds"
FAILS: Answer = "does not hold"
SAME: Answer = "no difference that matters"
OPEN: Answer = "open"
ANSWERS = (HOLDS, FAILS, SAME, OPEN)


@dataclass(frozen=True)
class Answered:
    """An answer and the p value that it rests on."""

    answer: Answer
    p: float
    p_difference: float | None = None
    """For better and robust: p of "there is no difference" """
    p_inside: float | None = None
    """For better and robust: p of "the difference is as large as the margin" """


@dataclass(frozen=True)
class Needed:
    """How many seeds in all would settle a claim; None: more than can be searched."""

    seeds: int | None
    within_looks: bool
    """Whether a declared look has so many"""

    def more(self, n: int) -> int | None:
        """Seeds beyond the n there are."""
        return None if self.seeds is None else max(0, self.seeds - n)


def answer(kind: Kind, found: Estimate, margin: float, level: float) -> Answered:
    """The answer of one estimate; `always` and `often` have rules of their own."""
    if kind in ("better", "robust"):
        p, inside = found.p(), found.p_inside(margin)
        if p < level:
            return Answered(HOLDS if found.mean > 0 else FAILS, p, p, inside)
        if inside < level:
            return Answered(SAME, inside, p, inside)
        return Answered(OPEN, p, p, inside)
    low, high = found.interval(1 - level)
    if kind == "comparable":
        inside = found.p_inside(margin)
        if inside < level:
            return Answered(HOLDS, inside)
        outside = low > margin or high < -margin
        p = found.p(margin if found.mean > 0 else -margin)
        return Answered(FAILS, p) if outside else Answered(OPEN, inside)
    assert kind == "severe", kind
    p = found.p(margin)
    if p < level:
        return Answered(HOLDS if found.mean > margin else FAILS, p)
    return Answered(OPEN, p)


def answer_always(rows: Sequence[Estimate], level: float) -> Answered:
    """Every row above 0; refuted when one is below, at a level shared by the rows."""
    holds = max(one.p() if one.mean > 0 else 1.0 for one in rows)
    if holds < level:
        return Answered(HOLDS, holds)
    below = min((one.p() for one in rows if one.mean < 0), default=1.0) * len(rows)
    return Answered(FAILS, below) if below < level else Answered(OPEN, min(1.0, holds))


def answer_often(k: int, n: int) -> Answered:
    """K of n against one in three, by the 90 % interval: 5 % at either end."""
    low, high = binomial_interval(k, n, 1 - 2 * FIXED_LEVEL)
    at_most, at_least = binomial_tails(k, n, OFTEN)
    if low > OFTEN:
        return Answered(HOLDS, at_least)
    return Answered(FAILS, at_most) if high < OFTEN else Answered(OPEN, min(at_most, at_least))


def settled_if_mean_stays(
    kind: Kind, mean: float, sd: float, margin: float, level: float
) -> int | None:
    """Seeds at which the present mean would be an answer; `sd` is that of one seed's contrast."""
    apart = {"comparable": abs(mean) - margin, "severe": abs(mean - margin)}.get(kind, abs(mean))
    found = [seeds_if_mean_stays(apart, sd, level)]
    if kind in ("better", "robust", "comparable"):
        # The two tests for "inside the margin" are one-sided.
        found.append(seeds_if_mean_stays(margin - abs(mean), sd, level, tails=1))
    return min((seeds for seeds in found if seeds is not None), default=None)


def settled_by_power(kind: Kind, sd: float, margin: float, level: float) -> int | None:
    """Seeds that would show a difference of the margin, or its absence, four times in five."""
    find = seeds_for_equivalence if kind == "comparable" else seeds_for_power
    return find(margin, sd, level, POWER)


def settled_if_none_diverges(k: int, n: int) -> int:
    """Runs in all that would refute "often", if k of n have diverged and no other does."""
    return next(m for m in count(max(n + 1, OFTEN_SEEDS)) if answer_often(k, m).answer == FAILS)


def at_a_look(seeds: int | None, looks: Sequence[int], n: int) -> Needed:
    """The declared look that has as many seeds, and more than the n there are."""
    if seeds is None:
        return Needed(None, within_looks=False)
    reached = [look for look in looks if look >= seeds and look > n]
    return Needed(reached[0], True) if reached else Needed(max(seeds, n + 1), False)
