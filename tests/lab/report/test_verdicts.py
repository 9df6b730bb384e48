"""Verdicts say what the runs say, and no more."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scalednl.lab.config import Experiment
from scalednl.lab.paper.answers import FAILS, HOLDS, OPEN, SAME, answer
from scalednl.lab.paper.claims import Claim, claims, main_claims
from scalednl.lab.paper.rules import RULES
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.records.run import Status
from scalednl.lab.records.runs import RunRecord, by_cell, find_runs
from scalednl.lab.report.verdicts import Verdict, corrected, judge, judge_all
from scalednl.lab.stats import estimate, pooled
from tests.lab.report.builders import write_cell, write_run

NOISE = (0.11, -0.21, 0.05, 0.16, -0.09, -0.02, 0.2, -0.13, 0.07, -0.14, 0.02, -0.02)
"""Twelve deviations that add up to nothing over the first 6 and over all"""
TWO_ARMS = ["softmax-loses-without-magnitude", "softmax-needs-small-init", "scaled-heads-help"]
FOUR_ARMS = [
    "scaled-makes-more-of-directions",
    "scaled-is-robust-to-init",
    "scaled-is-robust-to-channels",
]


def _claim(name: str) -> Claim:
    return next(claim for claim in claims() if claim.name == name)


def _no_score(_: RunRecord, __: str) -> None:
    return None


def _hour(_: Experiment) -> float:
    return 3600.0


def _judge(folder: Path, name: str, scale: str = "lite") -> Verdict:
    runs = by_cell(find_runs([folder]))
    found = judge(_claim(name), SCALES[scale], runs, _no_score)
    assert found is not None
    return found


def _settled(folder: Path, name: str, scale: str = "lite") -> Verdict:
    """The verdict as the page has it: corrected, and with what would settle it."""
    runs = by_cell(find_runs([folder]))
    return next(
        one for one in judge_all(runs, _no_score, _hour) if (one.claim, one.scale) == (name, scale)
    )


def _write(
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
    terms, experiments = list(_claim(name).at(SCALES[scale]))[row]
    noise = NOISE[:n]
    middle = sum(noise) / n
    for index, (term, experiment) in enumerate(zip(terms, experiments, strict=True)):
        shift = [term.weight * (difference + spread * (x - middle)) for x in noise]
        errors = [40.0 + (one if index == 0 else 0.0) for one in shift]
        write_cell(folder, experiment, errors)


@pytest.mark.parametrize("name", TWO_ARMS + FOUR_ARMS)
@pytest.mark.parametrize(
    ("difference", "spread", "answer"),
    [(2.0, 1, HOLDS), (-2.0, 1, FAILS), (0.05, 1, SAME), (0.3, 8, OPEN)],
)
def test_better(tmp_path: Path, name: str, difference: float, spread: float, answer: str) -> None:
    """Better and robust: above 0 holds, below 0 does not, inside the margin nothing matters."""
    _write(tmp_path, name, difference, 6, spread=spread)
    found = _judge(tmp_path, name)
    assert found.mean == pytest.approx(difference)
    assert found.answer == answer, found.why


@pytest.mark.parametrize(
    ("difference", "spread", "answer"),
    [(0.1, 1, HOLDS), (2.0, 1, FAILS), (-2.0, 1, FAILS), (0.9, 4, OPEN)],
)
def test_comparable(tmp_path: Path, difference: float, spread: float, answer: str) -> None:
    """Comparable holds inside the margin, fails outside on either side, and is open between."""
    _write(tmp_path, "magnitudes-are-comparable", difference, 6, spread=spread)
    assert _judge(tmp_path, "magnitudes-are-comparable").answer == answer


@pytest.mark.parametrize(
    ("difference", "spread", "answer"),
    [(3.0, 1, HOLDS), (0.5, 1, FAILS), (-2.0, 1, FAILS), (1.3, 8, OPEN)],
)
def test_severe(tmp_path: Path, difference: float, spread: float, answer: str) -> None:
    """Severely worse needs more than the margin: a clear but smaller loss refutes it."""
    name = "softmax-directions-are-severely-worse"
    _write(tmp_path, name, difference, 6, spread=spread)
    assert _judge(tmp_path, name).answer == answer


@pytest.mark.parametrize(
    ("differences", "answer"),
    [((2.0, 2.0), HOLDS), ((2.0, -2.0), FAILS), ((2.0, 0.01), OPEN)],
)
def test_always(tmp_path: Path, differences: tuple[float, ...], answer: str) -> None:
    """Every row must hold; one that goes the other way refutes, one that is open leaves it open."""
    name = "scaled-always-beats-softmax"
    rows = list(_claim(name).at(SCALES["lite"]))
    assert len(rows) == 3
    for row, difference in enumerate((*differences, 2.0)):
        _write(tmp_path, name, difference, 6, row=row)
    found = _judge(tmp_path, name)
    assert found.answer == answer, found.why
    assert len(found.rows) == 3


@pytest.mark.parametrize("seeds", [0, 2])
def test_always_waits_for_all_rows(tmp_path: Path, seeds: int) -> None:
    """While a row has too few seeds or none, the others alone say nothing about all."""
    name = "scaled-always-beats-softmax"
    for row in range(2):
        _write(tmp_path, name, 2.0, 6, row=row)
    if seeds:
        _write(tmp_path, name, 2.0, seeds, row=2)
    found = _settled(tmp_path, name)
    assert found.answer == OPEN
    assert "2 of 3 rows have enough seeds" in found.why


def test_a_row_without_spread_is_not_passed_over(tmp_path: Path) -> None:
    """All of a row's differences being equal, and bad, leaves the claim open, not confirmed."""
    name = "scaled-blocks-help"
    _write(tmp_path, name, 0.6, 6)
    _, (position, scaled) = list(_claim(name).at(SCALES["lite"]))[1]
    write_cell(tmp_path, position, [60.0] * 6)
    write_cell(tmp_path, scaled, [65.0] * 6)
    found = _settled(tmp_path, name)
    assert found.answer == OPEN
    assert "all 6 differences are equal" in found.why
    assert "cifar100" in found.why


def test_generally_is_pooled_over_rows(tmp_path: Path) -> None:
    """The pooled mean weighs rows equally, however many seeds each has."""
    name = "scaled-beats-softmax"
    _write(tmp_path, name, 2.0, 6, row=0)
    _write(tmp_path, name, 1.0, 4, row=1)
    found = _judge(tmp_path, name)
    assert found.mean == pytest.approx(1.5)
    assert (found.answer, found.n) == (HOLDS, 4)
    assert [row.n for row in found.rows] == [6, 4]


@pytest.mark.parametrize(
    ("diverged", "n", "scale", "answer"),
    [
        *((0, 8, "lite", FAILS), (7, 8, "lite", HOLDS), (2, 8, "lite", OPEN), (0, 7, "lite", OPEN)),
        *((3, 3, "lite", OPEN), (0, 10, "paper", FAILS), (3, 10, "paper", OPEN)),
    ],
)
def test_often(tmp_path: Path, diverged: int, n: int, scale: str, answer: str) -> None:
    """None of eight is less than one in three, seven of eight more; lite waits for eight."""
    ((_, (experiment,)), *_) = _claim("diverges-without-scale").at(SCALES[scale])
    for seed in range(n):
        status: Status = "diverged" if seed < diverged else "finished"
        write_run(tmp_path / f"{seed}", replace(experiment, seed=seed), [50.0], status=status)
    found = _judge(tmp_path, "diverges-without-scale", scale)
    assert found.answer == answer
    assert f"{diverged} of {n} diverged" in found.why


@pytest.mark.parametrize(
    ("seeds", "judged"), [(3, 0), (4, 4), (5, 4), (6, 6), (8, 6), (9, 9), (12, 12)]
)
def test_results_are_looked_at_when_declared(tmp_path: Path, seeds: int, judged: int) -> None:
    """Between two looks the seeds that came since wait; before the first nothing is judged."""
    _write(tmp_path, "scaled-beats-softmax", 2.0, seeds)
    found = _judge(tmp_path, "scaled-beats-softmax")
    assert found.rows[0].n == judged
    assert found.rows[0].seeds == list(range(judged))
    assert (found.answer == HOLDS) == (judged > 0)
    if not judged:
        assert "the first look is at 4" in found.why


@pytest.mark.parametrize(("scale", "n", "answer"), [("lite", 6, OPEN), ("paper", 10, HOLDS)])
def test_the_level_of_a_look_is_stricter(tmp_path: Path, scale: str, n: int, answer: str) -> None:
    """P between 0.017 and 0.05 decides where n is fixed, and not at one of four looks."""
    difference = {"lite": 0.85, "paper": 0.5}[scale]
    _write(tmp_path, "scaled-beats-softmax", difference, n, spread=5.0, scale=scale)
    (row,) = _judge(tmp_path, "scaled-beats-softmax", scale).rows
    assert row.p is not None
    assert 0.017 < row.p < 0.05
    assert row.answer == answer


@pytest.mark.parametrize(("scale", "n"), [("paper", 9), ("smoke", 1)])
def test_a_fixed_number_of_seeds_is_waited_for(tmp_path: Path, scale: str, n: int) -> None:
    """Before the declared seeds are there, nothing is judged: each look would be one more."""
    _write(tmp_path, "scaled-beats-softmax", 2.0, n, scale=scale)
    found = _judge(tmp_path, "scaled-beats-softmax", scale)
    assert found.answer == OPEN
    assert f"the first look is at {RULES[scale].looks[0]}" in found.why


def test_seeds_are_judged_in_order(tmp_path: Path) -> None:
    """With a seed missing, later ones wait: else one look would have several answers."""
    ((_, experiments), *_) = _claim("scaled-beats-softmax").at(SCALES["lite"])
    for experiment in experiments:
        write_cell(tmp_path, experiment, [40.0 + x for x in NOISE[:3]])
        write_cell(tmp_path, experiment, [41.0, 42.0, 43.0], first_seed=4)
    (row,) = _judge(tmp_path, "scaled-beats-softmax").rows
    assert (row.n, row.available) == (0, 3)


def test_repeating_a_diverged_run_hides_nothing(tmp_path: Path) -> None:
    """Of two runs of a training and seed that have ended, the earlier counts."""
    ((_, (experiment,)), *_) = _claim("diverges-without-scale").at(SCALES["lite"])
    for seed in range(8):
        one = replace(experiment, seed=seed)
        ended: tuple[tuple[str, Status, str], ...] = (
            ("a", "finished", "02"),
            ("b", "diverged", "01"),
        )
        for name, status, day in ended:
            date = f"2026-01-{day}"
            write_run(tmp_path / f"{name}{seed}", one, [50.0], status, date=date)
    found = _judge(tmp_path, "diverges-without-scale")
    assert "8 of 8 diverged" in found.why


def test_equal_claims_do_not_ease_the_correction(tmp_path: Path) -> None:
    """Claims settled as "no difference" leave the correction of the others as it is."""
    _write(tmp_path, "scaled-beats-softmax", 0.33, 6)
    alone = _settled(tmp_path, "scaled-beats-softmax")
    for name in ("softmax-needs-small-init", "softmax-loses-without-magnitude"):
        _write(tmp_path, name, 0.01, 6, spread=0.3)
        assert _settled(tmp_path, name).answer == SAME
    among = _settled(tmp_path, "scaled-beats-softmax")
    assert among.p_corrected == alone.p_corrected


def test_false_alarms_of_all_main_claims_together() -> None:
    """Where nothing differs, hardly any of 300 plans has a false difference among its claims."""
    rng, scale = np.random.default_rng(3), SCALES["lite"]
    rule, alarms = RULES["lite"], 0
    kinds = [c for c in claims() if c.is_primary and c.kind in ("better", "robust")]
    for _ in range(300):
        judged = []
        for claim in kinds:
            rows = len(claim.distinct_rows(scale))
            found = [estimate(list(rng.normal(0, 0.6, 6))) for _ in range(rows)]
            joint = pooled([one for one in found if one is not None])
            told = answer(claim.kind, joint, 1.0, rule.level(rows))
            judged.append(
                Verdict(
                    *(claim.name, "", claim.kind, "", claim.quantity, "lite", True, False),
                    *(told.answer, ""),
                    p=told.p,
                    level=rule.level(rows),
                    p_difference=told.p_difference,
                    p_inside=told.p_inside,
                )
            )
        answers = {one.answer for one in corrected(judged, scale)}
        alarms += bool(answers & {HOLDS, FAILS})
    assert alarms <= 12  # 4 %; each claim at 0.05 would give about 30 %


def test_a_diverged_run_counts_as_chance(tmp_path: Path) -> None:
    """It neither blocks the verdict nor flatters it: 90 % error on ten classes."""
    ((_, (softmax, scaled)), *_) = _claim("scaled-beats-softmax").at(SCALES["lite"])
    write_cell(tmp_path, softmax, [40.0, 41.0, 39.0, 40.0])
    write_cell(tmp_path, scaled, [38.0, 38.5, 37.0])
    write_run(tmp_path / "lost", replace(scaled, seed=3), [], status="diverged")
    (row,) = _judge(tmp_path, "scaled-beats-softmax").rows
    assert row.diverged == 1
    assert row.mean == pytest.approx((2.0 + 2.5 + 2.0 + (40.0 - 90.0)) / 4)


def test_only_common_finished_seeds_count(tmp_path: Path) -> None:
    """Seeds that one side lacks, and runs that did not finish, are left out."""
    ((_, (softmax, scaled)), *_) = _claim("scaled-beats-softmax").at(SCALES["smoke"])
    write_cell(tmp_path, softmax, [9.0, 9.4, 9.2, 9.4])
    write_cell(tmp_path, scaled, [8.0, 8.0])
    write_run(tmp_path / "cut", replace(scaled, seed=2), [1.0], status="interrupted")
    (row,) = _judge(tmp_path, "scaled-beats-softmax", "smoke").rows
    assert row.seeds == [0, 1]
    assert row.mean == pytest.approx(1.2)


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
    ((_, experiments), *_) = _claim("scaled-beats-softmax").at(SCALES["smoke"])
    for experiment, errors in zip(experiments, (softmax, scaled), strict=True):
        write_cell(tmp_path, experiment, errors)
    found = _settled(tmp_path, "scaled-beats-softmax", "smoke")
    assert found.answer == OPEN
    assert why in found.why
    assert found.more is not None
    assert found.more.for_margin is not None


def test_runs_of_another_scale_do_not_count(tmp_path: Path) -> None:
    """Runs of the full recipe say nothing about the miniature, and the other way round."""
    _write(tmp_path, "scaled-beats-softmax", 2.0, 10, scale="paper")
    runs = by_cell(find_runs([tmp_path]))
    assert judge(_claim("scaled-beats-softmax"), SCALES["lite"], runs, _no_score) is None
    assert {one.scale for one in judge_all(runs, _no_score, _hour)} == {"paper"}


def test_scores_are_judged_by_seeds(tmp_path: Path) -> None:
    """The claim about maps compares scores of attention, of finished runs that have one."""
    ((_, (softmax, scaled)), *_) = _claim("softmax-maps-are-vertical").at(SCALES["lite"])
    write_cell(tmp_path, softmax, [9.0] * 6)
    write_cell(tmp_path, scaled, [9.0] * 6)

    def share(run: RunRecord, name: str) -> float | None:
        assert name == "vertical_share"
        assert run.seed is not None
        return (
            None
            if run.seed == 5
            else (0.7 if "softmax" in run.name else 0.3)
            + NOISE[run.seed] / 10 * ("softmax" in run.name)
        )

    runs = by_cell(find_runs([tmp_path]))
    found = judge(_claim("softmax-maps-are-vertical"), SCALES["lite"], runs, share)
    assert found is not None
    assert (found.answer, found.n, found.margin) == (HOLDS, 4, 0.05)
    assert found.mean == pytest.approx(0.4 + sum(NOISE[:4]) / 40)


def test_an_open_claim_says_what_would_settle_it(tmp_path: Path) -> None:
    """More seeds and hours, at a declared look or beyond them, both numbers."""
    _write(tmp_path, "scaled-beats-softmax", 0.3, 4, spread=3.0)
    found = _settled(tmp_path, "scaled-beats-softmax")
    assert found.answer == OPEN
    assert found.more is not None
    stays, power = found.more.if_mean_stays, found.more.for_margin
    assert stays is not None
    assert stays.seeds is not None
    assert stays.more(4) == stays.seeds - 4 > 0
    assert found.more.hours(stays) == pytest.approx(2 * (stays.seeds - 4))
    assert power is not None
    assert power.seeds in RULES["lite"].looks or not power.within_looks
    values = found.as_dict()["more"]
    assert values["if_mean_stays"]["hours"] == found.more.hours(stays)


def test_main_claims_are_corrected_for_their_number(tmp_path: Path) -> None:
    """p just below its level holds alone, and not among a dozen; the others stay as they are."""
    _write(tmp_path, "scaled-beats-softmax", 0.3, 6)
    _write(tmp_path, "scaled-heads-help", 0.3, 6)
    alone = {name: _judge(tmp_path, name) for name in ("scaled-beats-softmax", "scaled-heads-help")}
    assert {one.answer for one in alone.values()} == {HOLDS}
    found = {one.claim: one for one in corrected(list(alone.values()), SCALES["lite"])}
    main, other = found["scaled-beats-softmax"], found["scaled-heads-help"]
    family = len(main_claims(SCALES["lite"]))
    assert main.p is not None
    assert main.p_corrected == pytest.approx(family * main.p)
    assert main.answer == OPEN
    assert "holds by itself, but not after correction" in main.why
    assert (other.answer, other.p_corrected) == (HOLDS, None)
    settled = _settled(tmp_path, "scaled-beats-softmax")
    assert settled.more is not None
    assert settled.more.if_mean_stays is not None
    assert (settled.more.if_mean_stays.more(6) or 0) > 0
    assert _settled(tmp_path, "scaled-heads-help").more is None


def test_arms_are_described(tmp_path: Path) -> None:
    """From six seeds on the sign-flip p; what pairing buys; who is better how often."""
    _write(tmp_path, "scaled-beats-softmax", 2.0, 6)
    (row,) = _judge(tmp_path, "scaled-beats-softmax").rows
    assert row.sign_flip_p == 2 / 64
    assert row.improvement == 1.0
    assert row.correlation is None  # one arm is constant here
    _write(tmp_path / "few", "scaled-beats-softmax", 2.0, 4)
    assert _judge(tmp_path / "few", "scaled-beats-softmax").rows[0].sign_flip_p is None


def test_losing_at_the_wrong_init_is_not_robustness(tmp_path: Path) -> None:
    """Softmax 5 / 5 and scaled 5 / 60 at He / 0.01: robustness is refuted, not confirmed."""
    name = "scaled-is-robust-to-init"
    terms, experiments = next(iter(_claim(name).at(SCALES["lite"])))
    for term, experiment in zip(terms, experiments, strict=True):
        setting = term.setting
        lost = setting.attention == "scaled" and ("init", 0.01) in setting.options
        base = 60.0 if lost else 5.0
        write_cell(tmp_path, experiment, [base + NOISE[i] * (1 + lost) for i in range(6)])
    found = _judge(tmp_path, name)
    assert found.mean == pytest.approx(-55.0, abs=0.5)
    assert found.answer == FAILS
