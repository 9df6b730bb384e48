"""What would settle an open claim: seeds, and hours of training on this machine."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scalednl.lab.config import Experiment
from scalednl.lab.paper.answers import (
    Kind,
    Needed,
    at_a_look,
    settled_by_power,
    settled_if_mean_stays,
    settled_if_none_diverges,
)
from scalednl.lab.paper.claims import Claim
from scalednl.lab.paper.rules import Rule
from scalednl.lab.report.contrasts import RowValues
from scalednl.lab.stats import upper_sd

Seconds = Callable[[Experiment], float]
"""How long a training takes here"""


@dataclass(frozen=True)
class Enough:
    """A number of seeds that would settle a claim, beside those there are."""

    more: int | None
    """Seeds beyond those of the row that has fewest; None: more than can be searched"""
    hours: float | None
    """Hours of training here, over all rows"""
    within_looks: bool
    """Whether a declared look has so many"""


@dataclass(frozen=True)
class More:
    """What would settle an open claim."""

    if_mean_stays: Enough | None
    for_margin: Enough | None
    is_assumed: bool = False
    """Whether some row has no seeds yet, so that their scatter is a guess"""


def what_settles(
    claim: Claim, rows: Sequence[RowValues], rule: Rule, level: float, seconds: Seconds
) -> More:
    """Seeds and hours that would settle an open claim: if its mean stays, and for its margin.

    The deviation is taken at its upper 80 % limit; before there are seeds, it is assumed.
    """
    hours = [math.fsum(seconds(one) for one in row.experiments) / 3600 for row in rows]
    if claim.kind == "often":
        values = [value for row in rows for value in row.arms[0]]
        needed = Needed(settled_if_none_diverges(int(sum(values)), len(values)), within_looks=True)
        return More(None, _enough(needed, [len(values)], [math.fsum(hours) / len(hours)]))
    if claim.kind == "always":
        # As many as the row that needs most.
        each = [_seeds(claim.kind, [row], claim, rule, level) for row in rows]
        stays, power = (_largest([pair[i] for pair in each]) for i in (0, 1))
    else:
        stays, power = _seeds(claim.kind, rows, claim, rule, level)
    # Seeds after a missing one count: it is the missing one that must be trained.
    have = [row.available + row.beyond for row in rows]
    looks = rule.looks_at(rows[0].data)
    known = all(row.estimate is not None for row in rows)
    if_mean_stays, for_margin = (
        _enough(at_a_look(seeds, looks, min(have)), have, hours) for seeds in (stays, power)
    )
    return More(if_mean_stays if known else None, for_margin, is_assumed=not known)


def _enough(needed: Needed, have: Sequence[int], hours: Sequence[float]) -> Enough:
    """Beside the seeds of each row, with the hours that one more takes there."""
    if needed.seeds is None:
        return Enough(None, None, needed.within_looks)
    missing = [max(0, needed.seeds - n) for n in have]
    took = math.fsum(n * each for n, each in zip(missing, hours, strict=True))
    return Enough(max(missing), took, needed.within_looks)


def _seeds(
    kind: Kind, rows: Sequence[RowValues], claim: Claim, rule: Rule, level: float
) -> tuple[int | None, int | None]:
    """If the mean stays, and for the margin; over rows that are pooled with equal weights."""
    margin = math.fsum(row.margin for row in rows) / len(rows)
    sds = [_seed_sd(claim, row, rule) for row in rows]
    sd = math.sqrt(math.fsum(value**2 for value in sds)) / len(sds)
    means = [row.estimate.mean for row in rows if row.estimate is not None]
    stays = (
        settled_if_mean_stays(kind, math.fsum(means) / len(means), sd, margin, level)
        if means
        else None
    )
    return stays, settled_by_power(kind, sd, margin, level)


def _seed_sd(claim: Claim, row: RowValues, rule: Rule) -> float:
    """Standard deviation of a seed's contrast; before there are seeds, from an assumed scatter."""
    found = row.estimate
    if found is not None:
        return upper_sd(found.error * math.sqrt(row.n), found.df)
    one_run = rule.run_sd[row.data] if claim.quantity == "error" else rule.score_margin
    return one_run * math.sqrt(sum(weight**2 for weight in row.weights))


def _largest(seeds: Sequence[int | None]) -> int | None:
    """The largest number; None, which is more than can be searched, if one is None."""
    known = [one for one in seeds if one is not None]
    return max(known) if len(known) == len(seeds) else None
