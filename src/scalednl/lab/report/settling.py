"""What would settle an open claim: seeds, and hours on this machine."""

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
)
from scalednl.lab.paper.claims import Claim
from scalednl.lab.paper.rules import OFTEN_SEEDS, Rule
from scalednl.lab.report.contrasts import RowValues
from scalednl.lab.stats import upper_sd

Seconds = Callable[[Experiment], float]
"""How long a training takes here"""


@dataclass(frozen=True)
class More:
    """What would settle an open claim."""

    if_mean_stays: Needed | None
    for_margin: Needed | None
    n: int
    """Seeds there are"""
    hours_a_seed: float
    """Here, for all trainings of the claim"""
    is_assumed: bool = False
    """Whether some row has no seeds yet, so that their scatter is a guess"""


def what_settles(
    claim: Claim, rows: Sequence[RowValues], rule: Rule, level: float, seconds: Seconds
) -> More:
    """Seeds and hours that would settle an open claim: if its mean stays, and for its margin.

    The deviation is taken at its upper 80 % limit; before there are seeds, it is assumed.
    """
    # Seeds after a missing one count: it is the missing one that must be trained.
    n = min(row.available + row.beyond for row in rows)
    experiments = {one.cell: one for row in rows for one in row.experiments}
    hours = sum(seconds(one) for one in experiments.values()) / 3600
    if claim.kind == "often":
        runs = sum(row.n for row in rows)
        return More(None, at_a_look(OFTEN_SEEDS, (), runs), runs, hours / len(experiments))
    if claim.kind == "always":
        # As many as the row that needs most.
        each = [_seeds("better", [row], claim, rule, level) for row in rows]
        stays, power = (_largest([pair[i] for pair in each]) for i in (0, 1))
    else:
        stays, power = _seeds(claim.kind, rows, claim, rule, level)
    looks = rule.looks_at(rows[0].data)
    known = all(row.estimate is not None for row in rows)
    if_mean_stays = at_a_look(stays, looks, n) if known else None
    return More(if_mean_stays, at_a_look(power, looks, n), n, hours, is_assumed=not known)


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
