"""Corrections for the number of claims, and what would settle an open one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scalednl.lab.console import counted
from scalednl.lab.paper.answers import FAILS, HOLDS, OPEN, SAME, answer
from scalednl.lab.paper.claims import claims, main_claims
from scalednl.lab.paper.rules import RULES
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.records.run import Status
from scalednl.lab.report.formatting import needed
from scalednl.lab.report.verdicts import Verdict, corrected
from scalednl.lab.stats import estimate, pooled
from tests.lab.report.builders import write_cell, write_run
from tests.lab.report.judging import find_claim, settled_verdict, verdict_on, write_contrast


def test_equal_claims_do_not_ease_the_correction(tmp_path: Path) -> None:
    """Claims settled as "no difference" leave the correction of the others as it is."""
    write_contrast(tmp_path, "scaled-beats-softmax", 0.33, 6)
    alone = settled_verdict(tmp_path, "scaled-beats-softmax")
    for name in ("softmax-needs-small-init", "softmax-loses-without-magnitude"):
        write_contrast(tmp_path, name, 0.01, 6, spread=0.3)
        assert settled_verdict(tmp_path, name).answer == SAME
    among = settled_verdict(tmp_path, "scaled-beats-softmax")
    assert among.p_corrected == alone.p_corrected


def test_false_alarms_of_all_main_claims_together() -> None:
    """Where nothing differs, hardly any of 300 plans has a false difference among its claims."""
    rng, scale = np.random.default_rng(3), SCALES["lite"]
    rule, alarms = RULES["lite"], 0
    kinds = [c for c in claims() if c.is_primary and c.kind in ("better", "robust")]
    for _ in range(300):
        verdicts = []
        for claim in kinds:
            rows = len(claim.distinct_rows(scale))
            found = [estimate(list(rng.normal(0, 0.6, 6))) for _ in range(rows)]
            joint = pooled([one for one in found if one is not None])
            told = answer(claim.kind, joint, 1.0, rule.level(rows))
            verdicts.append(
                Verdict(
                    *(claim.name, "", claim.kind, "", claim.quantity, "lite", True, False),
                    *(told.answer, ""),
                    p=told.p,
                    level=rule.level(rows),
                    p_difference=told.p_difference,
                    p_inside=told.p_inside,
                )
            )
        answers = {one.answer for one in corrected(verdicts, scale)}
        alarms += bool(answers & {HOLDS, FAILS})
    assert alarms <= 12  # 4 %; each claim at 0.05 would give about 30 %


def test_main_claims_are_corrected_for_their_number(tmp_path: Path) -> None:
    """p just below its level holds alone, and not among a dozen; the others stay as they are."""
    write_contrast(tmp_path, "scaled-beats-softmax", 0.3, 6)
    write_contrast(tmp_path, "scaled-heads-help", 0.3, 6)
    alone = {
        name: verdict_on(tmp_path, name) for name in ("scaled-beats-softmax", "scaled-heads-help")
    }
    assert {one.answer for one in alone.values()} == {HOLDS}
    found = {one.claim: one for one in corrected(list(alone.values()), SCALES["lite"])}
    main, other = found["scaled-beats-softmax"], found["scaled-heads-help"]
    family = len(main_claims(SCALES["lite"]))
    assert main.p is not None
    assert main.p_corrected == pytest.approx(family * main.p)
    assert main.answer == OPEN
    assert f"alone it would be 'holds', but corrected for {family} main claims p is " in main.why
    assert (other.answer, other.p_corrected) == (HOLDS, None)
    settled = settled_verdict(tmp_path, "scaled-beats-softmax")
    assert settled.more is not None
    assert settled.more.if_mean_stays is not None
    assert (settled.more.if_mean_stays.more or 0) > 0
    assert settled_verdict(tmp_path, "scaled-heads-help").more is None


def test_an_open_claim_says_what_would_settle_it(tmp_path: Path) -> None:
    """More seeds and hours, at a declared look or beyond them, both numbers."""
    write_contrast(tmp_path, "scaled-beats-softmax", 0.3, 4, spread=3.0)
    found = settled_verdict(tmp_path, "scaled-beats-softmax")
    assert found.answer == OPEN
    assert found.more is not None
    stays, power = found.more.if_mean_stays, found.more.for_margin
    assert not found.more.is_assumed
    for one in (stays, power):
        assert one is not None
        assert one.more is not None
        assert one.more > 0
        assert one.hours == pytest.approx(2 * one.more)
        assert one.within_looks == (one.more + 4 in RULES["lite"].looks)


def test_rows_that_are_ahead_need_fewer_hours(tmp_path: Path) -> None:
    """Seeds that a row has already are not counted again."""
    name = "scaled-beats-softmax"
    for row, seeds in enumerate((6, 4)):
        write_contrast(tmp_path, name, 0.3, seeds, row=row, spread=9.0)
    more = settled_verdict(tmp_path, name).more
    assert more is not None
    assert more.for_margin is not None
    assert more.for_margin.more is not None
    needed = more.for_margin.more + 4
    assert more.for_margin.hours == pytest.approx(2 * (needed - 4) + 2 * (needed - 6))


def test_everywhere_needs_the_rows_without_runs_too(tmp_path: Path) -> None:
    """Two rows of three do not settle "on every data set and network", so the third is counted."""
    name = "scaled-always-beats-softmax"
    for row in range(2):
        write_contrast(tmp_path, name, 7.0, 12, row=row)
    found = settled_verdict(tmp_path, name)
    assert found.answer == OPEN
    assert "of 3 data sets or networks" in found.why
    assert found.more is not None
    assert found.more.is_assumed
    assert found.more.if_mean_stays is None
    assert found.more.for_margin is not None
    assert (found.more.for_margin.more or 0) > 1


@pytest.mark.parametrize(("diverged", "more"), [(0, 1), (1, 6), (2, 10)])
def test_divergences_ask_for_more_runs(tmp_path: Path, diverged: int, more: int) -> None:
    """7 runs: "often" would be refuted by 8, 13 or 17 in all, if no other diverges."""
    name = "diverges-without-scale"
    ((_, (experiment,)), *_) = find_claim(name).at(SCALES["lite"])
    for seed in range(7):
        lost: Status = "diverged" if seed < diverged else "finished"
        write_run(tmp_path / str(seed), replace(experiment, seed=seed), [50.0], lost)
    found = settled_verdict(tmp_path, name)
    assert found.answer == OPEN
    assert found.more is not None
    assert found.more.if_mean_stays is None
    assert found.more.for_margin is not None
    assert (found.more.for_margin.more, found.more.for_margin.hours) == (more, more)
    assert f"{counted(more, 'more run')} " in needed(found)


@pytest.mark.parametrize(
    ("softmax", "scaled", "why"),
    [
        ([9.0], [8.0], "1 seed so far"),
        ([9.0, 9.0, 9.0], [8.0, 8.0, 8.0], "all 2 differences are equal"),
        ([9.0, 8.0], [], "no seed has all the trainings"),
    ],
)
def test_too_little_is_open_with_the_reason(
    tmp_path: Path, softmax: list[float], scaled: list[float], why: str
) -> None:
    """One seed, no spread, or a missing arm: open, and what would settle it is still stated."""
    ((_, experiments), *_) = find_claim("scaled-beats-softmax").at(SCALES["smoke"])
    for experiment, errors in zip(experiments, (softmax, scaled), strict=True):
        write_cell(tmp_path, experiment, errors)
    found = settled_verdict(tmp_path, "scaled-beats-softmax", "smoke")
    assert found.answer == OPEN
    assert why in found.why
    assert found.more is not None
    assert found.more.for_margin is not None
    assert found.more.is_assumed


def test_seeds_after_a_missing_one_are_there(tmp_path: Path) -> None:
    """With seed 0 missing, the others need not be trained again: only it and what is beyond."""
    name = "softmax-needs-small-init"
    _, experiments = next(iter(find_claim(name).at(SCALES["lite"])))
    needed = []
    for first in (0, 1):
        folder = tmp_path / str(first)
        for experiment, error in zip(experiments, (40.0, 33.0), strict=True):
            write_cell(folder, experiment, [error, error + 1, error + 2], first_seed=first)
        found = settled_verdict(folder, name)
        assert found.answer == OPEN
        assert found.more is not None
        assert found.more.for_margin is not None
        needed.append(found.more.for_margin)
    complete, with_a_gap = needed
    assert with_a_gap == complete
    assert complete.hours == pytest.approx(2 * (complete.more or 0))
