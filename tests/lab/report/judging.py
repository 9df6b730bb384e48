"""Runs whose contrasts are known, and the verdicts on them."""

from pathlib import Path

from scalednl.lab.config import Experiment
from scalednl.lab.paper.claims import Claim, claims
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.records.runs import RunRecord, by_cell, find_runs
from scalednl.lab.report.verdicts import Verdict, judge, judge_all
from tests.lab.report.builders import write_cell

NOISE = (0.11, -0.21, 0.05, 0.16, -0.09, -0.02, 0.2, -0.13, 0.07, -0.14, 0.02, -0.02)
"""Twelve deviations that add up to nothing over the first 6 and over all"""


def find_claim(name: str) -> Claim:
    """A claim by its name."""
    return next(claim for claim in claims() if claim.name == name)


def no_score(_: RunRecord, __: str) -> None:
    """No run has a score."""
    return


def an_hour(_: Experiment) -> float:
    """Every training takes an hour."""
    return 3600.0


def verdict_on(folder: Path, name: str, scale: str = "lite") -> Verdict:
    """The verdict on a claim by itself."""
    runs = by_cell(find_runs([folder]))
    found = judge(find_claim(name), SCALES[scale], runs, no_score)
    assert found is not None
    return found


def settled_verdict(folder: Path, name: str, scale: str = "lite") -> Verdict:
    """The verdict as the page has it: corrected, and with what would settle it."""
    runs = by_cell(find_runs([folder]))
    return next(
        one for one in judge_all(runs, no_score, an_hour) if (one.claim, one.scale) == (name, scale)
    )


def write_contrast(
    folder: Path,
    name: str,
    difference: float,
    n: int,
    *,
    row: int = 0,
    spread: float = 1.0,
    scale: str = "lite",
) -> None:
    """Runs whose contrast has this mean over n seeds; what differs sits in the first arm."""
    terms, experiments = list(find_claim(name).at(SCALES[scale]))[row]
    noise = NOISE[:n]
    middle = sum(noise) / n
    for index, (term, experiment) in enumerate(zip(terms, experiments, strict=True)):
        shift = [term.weight * (difference + spread * (x - middle)) for x in noise]
        errors = [40.0 + (one if index == 0 else 0.0) for one in shift]
        write_cell(folder, experiment, errors)
