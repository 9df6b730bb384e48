"""For every claim a verdict, and never more than the runs say."""

from collections.abc import Callable, Mapping, Sequence
from math import comb
from typing import Any

from scalednl.paper.claims import OFTEN, Claim, claims
from scalednl.paper.scales import SCALES, Scale
from scalednl.report.runs import Run
from scalednl.statistics import contrast

P = 0.05
HOLDS, FAILS, UNCLEAR = "holds", "does not hold", "not enough runs to tell"

Runs = Mapping[str, Sequence[Run]]
"""By cell"""
Score = Callable[[Run], float | None]


def judge_all(runs: Runs, key_share: Score) -> list[dict[str, Any]]:
    """Every claim at every scale that has runs for it, those of the full recipe first."""
    found = []
    for scale in reversed(SCALES.values()):
        for claim in claims():
            judged = judge(claim, scale, runs, key_share)
            if judged is not None:
                found.append(judged)
    return found


def judge(claim: Claim, scale: Scale, runs: Runs, key_share: Score) -> dict[str, Any] | None:
    """A claim at a scale; None where no run has anything to do with it."""
    experiments = [(weight, scale.experiment(setting)) for weight, setting in claim.terms]
    if any(experiment is None for _, experiment in experiments):
        return None
    members = [(w, runs.get(e.cell, ())) for w, e in experiments if e is not None]
    if not any(found for _, found in members):
        return None
    first = experiments[0][1]
    assert first is not None
    judged = (
        _judge_divergence(members[0][1])
        if claim.quantity == "diverged"
        else _judge_difference(members, _score_of(claim, key_share))
    )
    return {
        "claim": claim.name,
        "says": claim.says,
        "artefact": claim.artefact,
        "quantity": claim.quantity,
        "scale": scale.name,
        "data": first.data,
        "network": first.model,
        **judged,
    }


def _score_of(claim: Claim, key_share: Score) -> Score:
    if claim.quantity == "key_share":
        return lambda run: key_share(run) if run.counts else None
    return lambda run: run.error("last") if run.counts else None


def _judge_difference(members: Sequence[tuple[int, Sequence[Run]]], score: Score) -> dict[str, Any]:
    by_seed = []
    for weight, runs in members:
        values = {}
        for run in runs:
            value = score(run)
            if value is not None and run.experiment is not None:
                values[run.experiment.seed] = weight * value
        by_seed.append(values)
    diverged = sum(run.status == "diverged" for _, runs in members for run in runs)
    seeds = sorted(set.intersection(*(set(values) for values in by_seed)))
    if not seeds:
        return {
            "verdict": UNCLEAR,
            "why": "no seed has all the trainings it needs",
            "contrast": None,
        }
    differences = [sum(values[seed] for values in by_seed) for seed in seeds]
    found = contrast(differences)
    # Runs that diverged have no error: what is left of the others is no fair sample.
    told = found.p < P and not diverged
    verdict = (HOLDS if found.mean > 0 else FAILS) if told else UNCLEAR
    least = 2.0 ** (1 - found.n)
    if diverged:
        why = f"{diverged} run{'s' * (diverged > 1)} diverged and cannot be compared"
    elif told:
        why = f"p = {found.p:.2g} over {found.n} seeds"
    elif least >= P:
        why = f"{found.n} seed{'s' * (found.n > 1)} cannot reach p < {P}: at least 6 are needed"
    else:
        why = f"p = {found.p:.2g}: the difference is within chance"
    return {"verdict": verdict, "why": why, "contrast": {**found.as_dict(), "seeds": seeds}}


def _judge_divergence(found: Sequence[Run]) -> dict[str, Any]:
    """How many diverged, against one in three: both tails of the binomial law."""
    ended = [run for run in found if run.status in ("finished", "diverged")]
    n, k = len(ended), sum(run.status == "diverged" for run in ended)
    share = {i: comb(n, i) * OFTEN**i * (1 - OFTEN) ** (n - i) for i in range(n + 1)}
    at_most = sum(share[i] for i in range(k + 1))
    at_least = sum(share[i] for i in range(k, n + 1))
    if at_least < P:
        verdict, why = HOLDS, f"{k} of {n} diverged (p = {at_least:.2g})"
    elif n and at_most < P:
        verdict, why = FAILS, f"{k} of {n} diverged (p = {at_most:.2g})"
    else:
        verdict, why = UNCLEAR, f"{k} of {n} diverged"
    return {"verdict": verdict, "why": why, "contrast": None, "diverged": k, "n": n}
