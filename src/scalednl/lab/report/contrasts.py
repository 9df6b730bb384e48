"""The contrasts of a claim, seed by seed, as far as runs give them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scalednl.lab.config import Experiment
from scalednl.lab.paper.claims import DIVERGED, Claim, Term
from scalednl.lab.paper.costs import chance_error_pct
from scalednl.lab.paper.rules import RULES
from scalednl.lab.paper.scales import Scale
from scalednl.lab.records.runs import Cells, RunRecord
from scalednl.lab.stats import Estimate, estimate

Scores = Callable[[RunRecord, str], float | None]
"""A score of attention of a run, by its name"""


@dataclass(frozen=True)
class RowValues:
    """One row of a claim: every seed that all its trainings have, and what each brought."""

    data: str
    network: str
    weights: tuple[int, ...]
    experiments: tuple[Experiment, ...]
    seeds: tuple[int, ...]
    """Those judged: the first so many, as the rule's looks say"""
    arms: tuple[tuple[float, ...], ...]
    """For each training its values at these seeds"""
    available: int
    """Seeds from 0 on that have all trainings, judged or not"""
    beyond: int
    """Seeds that have all trainings, but come after a missing one"""
    diverged: int
    """Runs at these seeds that diverged; each counts as chance error"""
    margin: float
    has_runs: bool
    """Whether any of its trainings was begun"""

    @property
    def n(self) -> int:
        """How many seeds are judged."""
        return len(self.seeds)

    @property
    def values(self) -> list[float]:
        """The contrast of every seed."""
        return [
            sum(weight * arm[i] for weight, arm in zip(self.weights, self.arms, strict=True))
            for i in range(self.n)
        ]

    @property
    def estimate(self) -> Estimate | None:
        """Mean and error of the contrast; None without spread."""
        return estimate(self.values)


def row_values(claim: Claim, scale: Scale, runs: Cells, scores: Scores) -> list[RowValues]:
    """The rows of a claim that exist at a scale; of "always" all, of others those with runs."""
    found: dict[tuple[str, ...], RowValues] = {}
    for terms, experiments in claim.at(scale):
        members = [runs.get(experiment.cell, ()) for experiment in experiments]
        key = tuple(experiment.cell for experiment in experiments)
        found.setdefault(key, _row(scale, terms, experiments, members, scores))
    begun = [row for row in found.values() if row.has_runs]
    return list(found.values()) if claim.kind == "always" and begun else begun


def _row(
    scale: Scale,
    terms: Sequence[Term],
    experiments: tuple[Experiment, ...],
    members: Sequence[Sequence[RunRecord]],
    scores: Scores,
) -> RowValues:
    rule = RULES[scale.name]
    arms = [_arm(term, runs, scores) for term, runs in zip(terms, members, strict=True)]
    common = sorted(set.intersection(*(set(arm) for arm in arms)))
    # Seeds are judged in the order of their numbers: with a gap, a look would have several answers.
    first = [seed for place, seed in enumerate(common) if seed == place]
    # Divergences are counted over all runs; only means are looked at several times.
    counted = terms[0].quantity == DIVERGED
    judged = rule.seeds_used(len(first), experiments[0].data)
    seeds = tuple(common if counted else first[:judged])
    every = [run for runs in members for run in runs]
    is_score = terms[0].quantity not in ("error", DIVERGED)
    return RowValues(
        experiments[0].data,
        experiments[0].model,
        tuple(term.weight for term in terms),
        experiments,
        seeds,
        tuple(tuple(arm[seed] for seed in seeds) for arm in arms),
        len(first),
        len(common) - len(first),
        sum(run.state == "diverged" and run.seed in seeds for run in every),
        rule.score_margin if is_score else rule.margins[experiments[0].data],
        has_runs=bool(every),
    )


def _arm(term: Term, runs: Sequence[RunRecord], scores: Scores) -> dict[int, float]:
    """What a training brought, by seed."""
    found = ((run.seed, _value(term, run, scores)) for run in runs)
    return {seed: value for seed, value in found if seed is not None and value is not None}


def _value(term: Term, run: RunRecord, scores: Scores) -> float | None:
    diverged = run.state == "diverged"
    if term.quantity == DIVERGED:
        return float(diverged) if diverged or run.counts else None
    if term.quantity == "error":
        if diverged and run.experiment is not None:
            return chance_error_pct(run.experiment)
        return run.last_error if run.counts else None
    return scores(run, term.quantity) if run.counts else None
