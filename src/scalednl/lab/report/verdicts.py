"""For every claim a verdict, and never more than the runs say."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalednl.lab.config.data_sets import is_generated
from scalednl.lab.console import counted
from scalednl.lab.paper.answers import (
    FAILS,
    HOLDS,
    OPEN,
    SAME,
    Answer,
    Answered,
    answer,
    answer_always,
    answer_often,
)
from scalednl.lab.paper.claims import Claim, claims, main_claims, own_claims
from scalednl.lab.paper.rules import FIXED_LEVEL, OFTEN_SEEDS, RULES, Rule
from scalednl.lab.paper.scales import Scale
from scalednl.lab.records.runs import Cells
from scalednl.lab.report.aggregate import own_attentions_in, scales_of
from scalednl.lab.report.contrasts import RowValues, Scores, row_values
from scalednl.lab.report.settling import More, Seconds, what_settles
from scalednl.lab.stats import (
    SIGN_FLIP_FROM,
    Estimate,
    Summary,
    correlation,
    holm,
    pooled,
    probability_of_improvement,
    sign_flip_p,
    summarise,
)

PLACES = "data sets or networks"
"""What the rows of a claim differ in"""


@dataclass(frozen=True)
class RowVerdict(RowValues):
    """One data set and network; descriptive where there are several."""

    answer: Answer
    p: float | None
    why: str

    @property
    def summary(self) -> Summary | None:
        """Mean and interval of the contrast; None before there are seeds."""
        return summarise(self.values) if self.n else None

    @property
    def sign_flip_p(self) -> float | None:
        """P by the signs of the differences alone; None for too few of them."""
        return sign_flip_p(self.values) if self.n >= SIGN_FLIP_FROM else None

    @property
    def correlation(self) -> float | None:
        """Between the two arms: what pairing buys."""
        return correlation(*self.arms) if self.weights == (1, -1) else None

    @property
    def improvement(self) -> float | None:
        """P(a run of the favoured arm has the lower error)."""
        if not self.n or self.weights != (1, -1):
            return None
        return probability_of_improvement(self.arms[1], self.arms[0])


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
    """What the answer rests on; where it is open, p of the difference"""
    p_corrected: float | None = None
    """By Holm's method over the main claims of the scale"""
    correction: float = 1.0
    """What p was multiplied by, or would be"""
    p_difference: float | None = None
    """For better and robust claims: p of "there is no difference" """
    p_inside: float | None = None
    """For better and robust claims: p of "the difference is as large as the margin" """
    level: float = FIXED_LEVEL
    margin: float | None = None
    rows: tuple[RowVerdict, ...] = ()
    more: More | None = None
    where: str = ""
    """For costs: the network and machine"""
    data: tuple[str, ...] = ()
    """The data sets of its runs"""

    @property
    def seeds(self) -> str:
        """How many seeds are judged: "6", or "6 and 4" where rows differ."""
        *others, last = [str(row.n) for row in self.rows if row.n] or [""]
        return f"{', '.join(others)} and {last}" if {*others} - {last} else str(self.n or "")

    @property
    def is_generated(self) -> bool:
        """Whether all its runs are of generated images, so that it is no answer about the paper."""
        return bool(self.data) and all(is_generated(name) for name in self.data)

    @property
    def is_waiting(self) -> bool:
        """Whether no seed could be judged yet."""
        seeds = self.n or any(row.n for row in self.rows)
        return self.answer == OPEN and self.quantity != "cost" and not seeds


def judge_all(runs: Cells, scores: Scores, seconds: Seconds) -> list[Verdict]:
    """Every claim at every scale that has runs for it, those of the full recipe first.

    Open verdicts have what would settle them; a main claim must pass its correction too.
    """
    asked = (*claims(), *own_claims(own_attentions_in(runs)))
    by_name = {claim.name: claim for claim in asked}
    found: list[Verdict] = []
    for scale in scales_of(runs):
        judged = [judge(claim, scale, runs, scores) for claim in by_name.values()]
        for one in corrected([one for one in judged if one is not None], scale):
            more = None
            if one.answer == OPEN:
                claim = by_name[one.claim]
                rows = one.rows or row_values(claim, scale, runs, scores)
                level = one.level / one.correction
                more = what_settles(claim, rows, RULES[scale.name], level, seconds)
            found.append(replace(one, more=more))
    return found


def judge(claim: Claim, scale: Scale, runs: Cells, scores: Scores) -> Verdict | None:
    """A claim by itself; None where no run has anything to do with it."""
    rows = row_values(claim, scale, runs, scores)
    if not rows or not claim.is_testable(scale):
        return None
    rule, possible = RULES[scale.name], len(claim.distinct_rows(scale))
    begun = [row for row in rows if row.has_runs]
    often = claim.kind == "often"
    verdict = Verdict(
        *(claim.name, claim.says, claim.kind, claim.artefact, claim.quantity, scale.label),
        *(claim.is_primary, claim.is_ours, OPEN, ""),
        level=FIXED_LEVEL if often else rule.level(possible),
        data=tuple(dict.fromkeys(row.data for row in begun)),
    )
    if often:
        return _often(verdict, rows)
    described = tuple(_described(claim, row, rule, verdict.level) for row in rows)
    verdict = replace(verdict, rows=described)
    usable = [(row, found) for row in rows if (found := row.estimate) is not None]
    # A row without spread cannot be pooled, and leaving it out would hide what it says.
    flat = [row for row in described if row.n and row.p is None]
    if flat or not usable:
        first = (flat or [row for row in described if row.has_runs])[0]
        where = f" ({first.data}, {first.network})" if len(rows) > 1 else ""
        return replace(verdict, why=first.why + where)
    return _joined(claim, verdict, usable, possible)


def _joined(
    claim: Claim, verdict: Verdict, usable: Sequence[tuple[RowValues, Estimate]], possible: int
) -> Verdict:
    """The verdict over the rows that have enough seeds."""
    joint = pooled([found for _, found in usable])
    margin = math.fsum(row.margin for row, _ in usable) / len(usable)
    if claim.kind == "always":
        found = answer_always([one for _, one in usable], verdict.level)
        if found.answer == HOLDS and len(usable) < possible:
            found = Answered(OPEN, 1.0)
    else:
        found = answer(claim.kind, joint, margin, verdict.level)
    low, high = joint.interval()
    verdict = replace(
        verdict,
        answer=found.answer,
        mean=joint.mean,
        low=float(low),
        high=float(high),
        n=min(row.n for row, _ in usable),
        p=found.p,
        p_difference=found.p_difference,
        p_inside=found.p_inside,
        margin=margin,
    )
    return replace(verdict, why=_why(verdict, len(usable), possible))


def _described(claim: Claim, row: RowValues, rule: Rule, level: float) -> RowVerdict:
    """One row by itself."""
    found, kind = row.estimate, "better" if claim.kind == "always" else claim.kind
    told = None if found is None else answer(kind, found, row.margin, level)
    return RowVerdict(
        **vars(row),
        answer=OPEN if told is None else told.answer,
        p=None if told is None else told.p,
        why=_row_why(claim, row, rule),
    )


def _row_why(claim: Claim, row: RowValues, rule: Rule) -> str:
    """What stands in the way of an answer, if anything does."""
    least = rule.looks_at(row.data)[0]
    what = "trainings" if claim.quantity == "error" else "records of attention"
    if not row.available and row.beyond:
        return f"all the {what} are there for {counted(row.beyond, 'seed')}, but not for seed 0"
    if not row.available:
        return f"no seed has all the {what} it needs"
    if not row.n:
        return f"{counted(row.available, 'seed')} so far; the first look is at {least}"
    if row.estimate is None:
        return f"all {row.n} differences are equal: there is no spread to judge by"
    return ""


def _why(verdict: Verdict, usable: int, possible: int) -> str:
    """What the answer rests on."""
    assert verdict.p is not None
    if verdict.kind == "always" and verdict.answer == OPEN and usable < possible:
        return f"{usable} of {possible} {PLACES} have enough seeds"
    places = f"{usable} of {possible}" if usable < possible else str(usable)
    over = f"{verdict.seeds} seeds" + (f" on {places} {PLACES}" if possible > 1 else "")
    judged = [row.sign_flip_p for row in verdict.rows if row.n]
    # Of no difference, in one row: nothing of the kind for a margin, or for several rows.
    has_signs = verdict.kind in ("better", "robust") and len(judged) == 1 and judged[0] is not None
    signs = f"; sign flip p = {judged[0]:.2g}" if has_signs else ""
    p = f"p = {verdict.p:.2g} (null: {_null(verdict)})"
    return f"{p}, {over}{signs}; judged at {verdict.level:g}"


def _null(verdict: Verdict) -> str:
    """The hypothesis that the p value speaks against."""
    outside, inside = "a difference beyond the margin", "a difference within the margin"
    if verdict.kind == "comparable":
        return inside if verdict.answer == FAILS else outside
    if verdict.kind == "severe":
        return outside if verdict.answer == FAILS else inside
    return outside if verdict.answer == SAME else "no difference"


def _often(verdict: Verdict, rows: Sequence[RowValues]) -> Verdict:
    """How many trainings diverged, over all rows."""
    values = [value for row in rows for value in row.arms[0]]
    n, k = len(values), int(sum(values))
    so_far = f"{k} of {n} diverged"
    if n < OFTEN_SEEDS:
        return replace(verdict, why=f"{so_far}; judged at {OFTEN_SEEDS}", n=n)
    found = answer_often(k, n)
    why = f"{so_far} (p = {found.p:.2g} of one in three)"
    return replace(verdict, answer=found.answer, why=why, n=n, p=found.p)


def corrected(verdicts: Sequence[Verdict], scale: Scale) -> list[Verdict]:
    """Main verdicts after Holm's correction over all main claims that the scale can test.

    Differences and their absence are two families: a claim that is settled as "no difference that
    matters" must not make it easier for the others to be taken for differences.
    """
    family = main_claims(scale)
    tested = {one.claim: one for one in verdicts if one.claim in family}
    differs = {name: _ratio(tested.get(name), absence=False) for name in family}
    absent = {name: _ratio(tested.get(name), absence=True) for name in family}
    both = [
        dict(zip(ratios, holm(list(ratios.values()), most=math.inf), strict=True))
        for ratios in (differs, absent)
    ]
    found = []
    for one in verdicts:
        if one.claim not in family:
            found.append(one)
            continue
        is_absence = one.answer == SAME
        ratio = (absent if is_absence else differs)[one.claim]
        found.append(_with_correction(one, ratio, both[is_absence][one.claim], len(family)))
    return found


def _ratio(verdict: Verdict | None, *, absence: bool) -> float:
    """P in units of its level, which differs by claim; infinite where nothing is tested."""
    p = None
    if verdict is not None:
        differs = verdict.p if verdict.p_difference is None else verdict.p_difference
        p = verdict.p_inside if absence else differs
    return math.inf if verdict is None or p is None else p / verdict.level


def _with_correction(verdict: Verdict, ratio: float, adjusted: float, family: int) -> Verdict:
    """An answer that does not survive the correction is open again."""
    if not math.isfinite(ratio) or verdict.p is None:
        return replace(verdict, correction=float(family))
    factor = adjusted / ratio if ratio else float(family)
    p = min(1.0, factor * verdict.p)
    verdict = replace(verdict, p_corrected=p, correction=factor)
    if verdict.answer == OPEN or adjusted < 1:
        return verdict
    why = (
        f"alone it would be '{verdict.answer}', but corrected for {family} main claims "
        f"p is {p:.2g}; {verdict.why}"
    )
    return replace(verdict, answer=OPEN, why=why)
