"""What would settle an open claim: seeds, and hours on this machine."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scalednl.config import Experiment
from scalednl.paper.answers import Kind, Needed, settled_by_power, settled_if_mean_stays
from scalednl.paper.claims import Claim
from scalednl.paper.rules import Rule
from scalednl.report.contrasts import RowValues
from scalednl.stats import Estimate, estimate, pooled, upper_sd

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

    def hours(self, needed: Needed | None) -> float | None:
        """Of the seeds that are missing."""
        more = None if needed is None else needed.more(self.n)
        return None if more is None else more * self.hours_a_seed


def what_settles(
    claim: Claim, rows: Sequence[RowValues], rule: Rule, level: float, seconds: Seconds
) -> More | None:
    """Seeds and hours that would settle an open claim: if its mean stays, and for its margin.

    The deviation is taken at its upper 80 % limit; before there are seeds, it is assumed.
    """
    if claim.kind == "often":
        return None
    known = [(row, found) for row in rows if (found := estimate(row.values)) is not None]
    chosen: Sequence[tuple[RowValues, Estimate | None]] = known or [(row, None) for row in rows]
    n = min(len(row.seeds) for row, _ in chosen)
    experiments = {one.cell: one for row, _ in chosen for one in row.experiments}
    hours = sum(seconds(one) for one in experiments.values()) / 3600
    if claim.kind == "always":
        # As many as the row that needs most.
        each = [_needed("better", [one], claim, rule, level) for one in chosen]
        return More(_most([a for a, _ in each]), _most([b for _, b in each]), n, hours)
    return More(*_needed(claim.kind, chosen, claim, rule, level), n, hours)


def _needed(
    kind: Kind,
    rows: Sequence[tuple[RowValues, Estimate | None]],
    claim: Claim,
    rule: Rule,
    level: float,
) -> tuple[Needed | None, Needed | None]:
    margin = math.fsum(row.margin for row, _ in rows) / len(rows)
    found = [one for _, one in rows if one is not None]
    if not found:
        sd = assumed_sd(claim, rows[0][0], rule) / math.sqrt(len(rows))
        return None, settled_by_power(kind, sd, margin, rule, level)
    joint, n = pooled(found), min(len(row.seeds) for row, _ in rows)
    sd = upper_sd(joint.error * math.sqrt(n), joint.df)
    stays = settled_if_mean_stays(kind, joint.mean, sd, margin, rule, level)
    return stays, settled_by_power(kind, sd, margin, rule, level)


def _most(needed: Sequence[Needed | None]) -> Needed | None:
    known = [one for one in needed if one is not None]
    return max(known, key=lambda one: math.inf if one.seeds is None else one.seeds, default=None)


def assumed_sd(claim: Claim, row: RowValues, rule: Rule) -> float:
    """Of one seed's contrast, from what one run is assumed to scatter."""
    one = rule.run_sd[row.data] if claim.quantity == "error" else rule.score_margin
    return one * math.sqrt(sum(weight**2 for weight in row.weights))
