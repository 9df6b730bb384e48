"""For every claim a verdict, and never more than the runs say."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from scalednl.config import Experiment
from scalednl.paper.answers import (
    OPEN,
    Answer,
    Answered,
    Kind,
    Needed,
    answer,
    answer_always,
    answer_often,
    settled_by_power,
    settled_if_mean_stays,
)
from scalednl.paper.claims import Claim, claims
from scalednl.paper.rules import FIXED_LEVEL, OFTEN_SEEDS, RULES, Rule
from scalednl.paper.scales import SCALES, Scale
from scalednl.report.contrasts import RowValues as Values
from scalednl.report.contrasts import Runs, Scores, row_values
from scalednl.stats import (
    SIGN_FLIP_FROM,
    Estimate,
    correlation,
    estimate,
    holm,
    pooled,
    probability_of_improvement,
    sign_flip_p,
    summarise,
    upper_sd,
)

Seconds = Callable[[Experiment], float]
"""How long a training takes here"""


@dataclass(frozen=True)
class RowVerdict:
    """One data set and network; descriptive where there are several."""

    data: str
    network: str
    n: int
    seeds: list[int]
    available: int
    mean: float | None
    sd: float | None
    low: float | None
    high: float | None
    p: float | None
    sign_flip_p: float | None
    correlation: float | None
    """Between the two arms: what pairing buys"""
    improvement: float | None
    """P(a run of the favoured arm has the lower error)"""
    diverged: int
    margin: float
    answer: Answer
    why: str


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


@dataclass(frozen=True)
class Verdict:
    """A claim at a scale, over all its rows."""

    claim: str
    says: str
    kind: str
    artefact: str
    quantity: str
    scale: str
    is_primary: bool
    is_ours: bool
    answer: Answer
    why: str
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    """Seeds judged in the row that has fewest"""
    p: float | None = None
    """Of the answer, or of the difference where it is open"""
    p_corrected: float | None = None
    """By Holm over the primary claims of the scale"""
    level: float = FIXED_LEVEL
    margin: float | None = None
    rows: tuple[RowVerdict, ...] = ()
    more: More | None = None
    where: str = ""
    """Of costs: the network and machine"""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file; hours beside the seeds that are needed."""
        values = asdict(self)
        if self.more is not None:
            for name in ("if_mean_stays", "for_margin"):
                needed: Needed | None = getattr(self.more, name)
                if needed is not None:
                    values["more"][name] |= {
                        "more": needed.more(self.more.n),
                        "hours": self.more.hours(needed),
                    }
        return values


def judge_all(runs: Runs, scores: Scores, seconds: Seconds) -> list[Verdict]:
    """Every claim at every scale that has runs for it, those of the full recipe first."""
    found: list[Verdict] = []
    for scale in reversed(SCALES.values()):
        by_name = {claim.name: claim for claim in claims()}
        judged = [judge(claim, scale, runs, scores) for claim in by_name.values()]
        for one in corrected([one for one in judged if one is not None], scale):
            rows = row_values(by_name[one.claim], scale, runs, scores)
            found.append(replace(one, more=what_settles(by_name[one.claim], one, rows, seconds)))
    return found


def judge(claim: Claim, scale: Scale, runs: Runs, scores: Scores) -> Verdict | None:
    """A claim by itself; None where no run has anything to do with it."""
    rows = row_values(claim, scale, runs, scores)
    if not rows or (claim.kind == "always" and len(list(claim.at(scale))) < 2):
        return None
    rule = RULES[scale.name]
    verdict = Verdict(
        *(claim.name, claim.says, claim.kind, claim.artefact, claim.quantity, scale.name),
        *(claim.is_primary, claim.is_ours, OPEN, ""),
        level=FIXED_LEVEL if claim.kind == "often" else rule.level,
    )
    if claim.kind == "often":
        return _often(verdict, rows, rule)
    described = tuple(_described(claim, row, rule) for row in rows)
    verdict = replace(verdict, rows=described)
    usable = [(row, found) for row in rows if (found := estimate(row.values)) is not None]
    if not usable:
        return replace(verdict, why=described[0].why)
    return _joined(claim, verdict, usable, rows, rule)


def _joined(
    claim: Claim,
    verdict: Verdict,
    usable: Sequence[tuple[Values, Estimate]],
    rows: Sequence[Values],
    rule: Rule,
) -> Verdict:
    """The verdict over the rows that have enough seeds."""
    joint = pooled([found for _, found in usable])
    margin = math.fsum(row.margin for row, _ in usable) / len(usable)
    if claim.kind != "always":
        found = answer(claim.kind, joint, margin, rule.level)
    elif len(usable) < len(rows) or len(usable) < 2:
        found = Answered(OPEN, 1.0)
    else:
        found = answer_always([one for _, one in usable], rule.level)
    low, high = joint.interval()
    verdict = replace(
        verdict,
        answer=found.answer,
        mean=joint.mean,
        low=float(low),
        high=float(high),
        n=min(len(row.seeds) for row, _ in usable),
        p=found.p,
        margin=margin,
    )
    return replace(verdict, why=_why(verdict, len(usable), len(rows)))


def _described(claim: Claim, row: Values, rule: Rule) -> RowVerdict:
    """One row by itself."""
    values, found = row.values, estimate(row.values)
    summary = summarise(values) if values else None
    two_arms = len(row.arms) == 2 and row.weights == (1, -1)
    kind = "better" if claim.kind == "always" else claim.kind
    told = None if found is None else answer(kind, found, row.margin, rule.level)
    n = len(values)
    return RowVerdict(
        row.data,
        row.network,
        n,
        list(row.seeds),
        row.available,
        mean=summary.mean if summary else None,
        sd=summary.sd if summary else None,
        low=summary.low if summary else None,
        high=summary.high if summary else None,
        p=None if told is None else told.p,
        sign_flip_p=sign_flip_p(values) if n >= SIGN_FLIP_FROM else None,
        correlation=correlation(*row.arms) if two_arms else None,
        improvement=(
            probability_of_improvement(row.arms[1], row.arms[0]) if two_arms and n else None
        ),
        diverged=row.diverged,
        margin=row.margin,
        answer=OPEN if told is None else told.answer,
        why=_row_why(claim, row, rule),
    )


def _row_why(claim: Claim, row: Values, rule: Rule) -> str:
    """What stands in the way of an answer, if anything does."""
    n, least = len(row.seeds), rule.looks[0] if rule.looks else 2
    if not row.available:
        what = "trainings" if claim.quantity == "error" else "records of attention"
        return f"no seed has all the {what} it needs"
    if n < 2:
        return f"{_seeds(row.available)} so far; the first look is at {least}"
    if estimate(row.values) is None:
        return f"all {n} differences are equal: there is no spread to judge by"
    return ""


def _why(verdict: Verdict, usable: int, rows: int) -> str:
    """What the answer rests on."""
    assert verdict.p is not None
    kind = {
        "comparable": "that the difference is as large as the margin",
        "severe": "that it is no larger than the margin",
    }.get(verdict.kind, "of no difference")
    if verdict.answer == "no difference that matters":
        kind = "that the difference is as large as the margin"
    if verdict.kind == "always" and verdict.answer == OPEN and usable < rows:
        return f"{rows - usable} of {rows} rows have too few seeds"
    over = f"{_seeds(verdict.n)}" + (f", {usable} rows" if usable > 1 else "")
    return f"p = {verdict.p:.2g} {kind} over {over}; judged at {verdict.level:g}"


def _often(verdict: Verdict, rows: Sequence[Values], rule: Rule) -> Verdict:
    """How many trainings diverged, over all rows."""
    values = [value for row in rows for value in row.arms[0]]
    n, k = len(values), int(sum(values))
    so_far = f"{k} of {n} diverged"
    if not n or (rule.looks and n < OFTEN_SEEDS):
        return replace(verdict, why=f"{so_far}; judged at {OFTEN_SEEDS}", n=n)
    found = answer_often(k, n)
    why = f"{so_far} (p = {found.p:.2g} of one in three)"
    return replace(verdict, answer=found.answer, why=why, n=n, p=found.p)


def what_settles(
    claim: Claim, verdict: Verdict, rows: Sequence[Values], seconds: Seconds
) -> More | None:
    """Seeds and hours that would settle an open verdict: if its mean stays, and for its margin.

    The deviation is taken at its upper 80 % limit; before there are seeds, it is assumed. A main
    claim must reach its level after correction, as things stand.
    """
    if verdict.answer != OPEN or claim.kind == "often":
        return None
    rule = RULES[verdict.scale]
    level = verdict.level
    if verdict.p and verdict.p_corrected and verdict.p_corrected < 1:
        level *= verdict.p / verdict.p_corrected
    known = [(row, found) for row in rows if (found := estimate(row.values)) is not None]
    chosen: Sequence[tuple[Values, Estimate | None]] = known or [(row, None) for row in rows]
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
    rows: Sequence[tuple[Values, Estimate | None]],
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


def assumed_sd(claim: Claim, row: Values, rule: Rule) -> float:
    """Of one seed's contrast, from what one run is assumed to scatter."""
    one = rule.run_sd[row.data] if claim.quantity == "error" else rule.score_margin
    return one * math.sqrt(sum(weight**2 for weight in row.weights))


def corrected(verdicts: Sequence[Verdict], scale: Scale) -> list[Verdict]:
    """Primary verdicts after Holm's correction over all primary claims that the scale can test."""
    family = [claim.name for claim in claims() if claim.is_primary and _exists(claim, scale)]
    by_name = {one.claim: one for one in verdicts}
    tested = [by_name.get(name) for name in family]
    # Levels differ by kind, so every p is taken in units of its level.
    ratios = [math.inf if one is None or one.p is None else one.p / one.level for one in tested]
    adjusted = dict(zip(family, holm(ratios, most=math.inf), strict=True))
    return [_with_correction(one, adjusted.get(one.claim), len(family)) for one in verdicts]


def _exists(claim: Claim, scale: Scale) -> bool:
    return any(True for _ in claim.at(scale))


def _with_correction(verdict: Verdict, ratio: float | None, family: int) -> Verdict:
    """An answer that does not survive the correction is open again."""
    if ratio is None or verdict.p is None:
        return verdict
    p = min(1.0, ratio * verdict.level)
    verdict = replace(verdict, p_corrected=p)
    if verdict.answer == OPEN or ratio < 1:
        return verdict
    why = (
        f"{verdict.answer} by itself, but not after correction for {family} claims "
        f"(p = {p:.2g}); {verdict.why}"
    )
    return replace(verdict, answer=OPEN, why=why)


def _seeds(n: int) -> str:
    return f"{n} seed{'s' * (n != 1)}"
