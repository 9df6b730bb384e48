"""Verdicts say what the runs say, and no more: every kind of claim."""

from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.lab.paper.answers import FAILS, HOLDS, OPEN, SAME
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.records.run import Status
from tests.lab.report.builders import write_cell, write_run
from tests.lab.report.judging import (
    NOISE,
    find_claim,
    settled_verdict,
    verdict_on,
    write_contrast,
)

TWO_ARMS = ["softmax-loses-without-magnitude", "softmax-needs-small-init", "scaled-heads-help"]
FOUR_ARMS = [
    "scaled-makes-more-of-directions",
    "scaled-is-robust-to-init",
    "scaled-is-robust-to-channels",
]


@pytest.mark.parametrize("name", TWO_ARMS + FOUR_ARMS)
@pytest.mark.parametrize(
    ("difference", "spread", "answer"),
    [(2.0, 1, HOLDS), (-2.0, 1, FAILS), (0.05, 1, SAME), (0.3, 8, OPEN)],
)
def test_better(tmp_path: Path, name: str, difference: float, spread: float, answer: str) -> None:
    """Better and robust: above 0 holds, below 0 does not, inside the margin nothing matters."""
    write_contrast(tmp_path, name, difference, 6, spread=spread)
    found = verdict_on(tmp_path, name)
    assert found.mean == pytest.approx(difference)
    assert found.answer == answer, found.why


@pytest.mark.parametrize(
    ("difference", "spread", "answer"),
    [(0.1, 1, HOLDS), (2.0, 1, FAILS), (-2.0, 1, FAILS), (0.9, 4, OPEN)],
)
def test_comparable(tmp_path: Path, difference: float, spread: float, answer: str) -> None:
    """Comparable holds inside the margin, fails outside on either side, and is open between."""
    write_contrast(tmp_path, "magnitudes-are-comparable", difference, 6, spread=spread)
    assert verdict_on(tmp_path, "magnitudes-are-comparable").answer == answer


@pytest.mark.parametrize(
    ("difference", "spread", "answer"),
    [(3.0, 1, HOLDS), (0.5, 1, FAILS), (-2.0, 1, FAILS), (1.3, 8, OPEN)],
)
def test_severe(tmp_path: Path, difference: float, spread: float, answer: str) -> None:
    """Severely worse needs more than the margin: a clear but smaller loss refutes it."""
    name = "softmax-directions-are-severely-worse"
    write_contrast(tmp_path, name, difference, 6, spread=spread)
    assert verdict_on(tmp_path, name).answer == answer


@pytest.mark.parametrize(
    ("differences", "answer"),
    [((2.0, 2.0), HOLDS), ((2.0, -2.0), FAILS), ((2.0, 0.01), OPEN)],
)
def test_always(tmp_path: Path, differences: tuple[float, ...], answer: str) -> None:
    """Every row must hold; one that goes the other way refutes, one that is open leaves it open."""
    name = "scaled-always-beats-softmax"
    rows = list(find_claim(name).at(SCALES["lite"]))
    assert len(rows) == 3
    for row, difference in enumerate((*differences, 2.0)):
        write_contrast(tmp_path, name, difference, 6, row=row)
    found = verdict_on(tmp_path, name)
    assert found.answer == answer, found.why
    assert len(found.rows) == 3


@pytest.mark.parametrize("seeds", [0, 2])
def test_always_waits_for_all_rows(tmp_path: Path, seeds: int) -> None:
    """While a row has too few seeds or none, the others alone say nothing about all."""
    name = "scaled-always-beats-softmax"
    for row in range(2):
        write_contrast(tmp_path, name, 2.0, 6, row=row)
    if seeds:
        write_contrast(tmp_path, name, 2.0, seeds, row=2)
    found = settled_verdict(tmp_path, name)
    assert found.answer == OPEN
    assert "2 of 3 data sets or networks have enough seeds" in found.why


def test_always_names_what_the_begun_row_lacks(tmp_path: Path) -> None:
    """Rows without runs are not the reason as long as another one has seeds."""
    name = "scaled-always-beats-softmax"
    write_contrast(tmp_path, name, 2.0, 1, row=1)
    found = settled_verdict(tmp_path, name)
    ((_, (experiment, _)),) = list(find_claim(name).at(SCALES["lite"]))[1:2]
    assert found.data == (experiment.data,)
    assert found.why.startswith("1 seed so far")
    assert experiment.data in found.why


def test_a_row_without_spread_is_not_passed_over(tmp_path: Path) -> None:
    """All of a row's differences being equal, and bad, leaves the claim open, not confirmed."""
    name = "scaled-blocks-help"
    write_contrast(tmp_path, name, 0.6, 6)
    _, (position, scaled) = list(find_claim(name).at(SCALES["lite"]))[1]
    write_cell(tmp_path, position, [60.0] * 6)
    write_cell(tmp_path, scaled, [65.0] * 6)
    found = settled_verdict(tmp_path, name)
    assert found.answer == OPEN
    assert "all 6 differences are equal" in found.why
    assert "cifar100" in found.why


def test_generally_is_pooled_over_rows(tmp_path: Path) -> None:
    """The pooled mean weighs rows equally, however many seeds each has."""
    name = "scaled-beats-softmax"
    write_contrast(tmp_path, name, 2.0, 6, row=0)
    write_contrast(tmp_path, name, 1.0, 4, row=1)
    found = verdict_on(tmp_path, name)
    assert found.mean == pytest.approx(1.5)
    assert (found.answer, found.n, found.seeds) == (HOLDS, 4, "6 and 4")
    assert [row.n for row in found.rows] == [6, 4]
    assert ", 6 and 4 seeds on " in found.why


def test_a_part_of_the_rows_is_named_as_one(tmp_path: Path) -> None:
    """A verdict from one data set of several says on how many of its rows it rests."""
    name = "scaled-beats-softmax"
    rows = len(find_claim(name).distinct_rows(SCALES["lite"]))
    for row in range(rows):
        write_contrast(tmp_path, name, 2.0, 6, row=row)
        part = f"{row + 1} of {rows}" if row + 1 < rows else str(rows)
        assert f", 6 seeds on {part} data sets or networks; " in verdict_on(tmp_path, name).why


def test_signs_are_told_for_one_row(tmp_path: Path) -> None:
    """From 6 seeds on, where a single row is judged: 2 of 64 outcomes are as extreme."""
    name = "scaled-beats-softmax"
    write_contrast(tmp_path, name, 2.0, 4)
    assert "sign flip" not in verdict_on(tmp_path, name).why
    write_contrast(tmp_path, name, 2.0, 6)
    assert f"; sign flip p = {2 / 64:.2g}; judged" in verdict_on(tmp_path, name).why
    write_contrast(tmp_path, name, 2.0, 6, row=1)
    assert "sign flip" not in verdict_on(tmp_path, name).why
    write_contrast(tmp_path, "magnitudes-are-comparable", 0.0, 6)
    assert "sign flip" not in verdict_on(tmp_path, "magnitudes-are-comparable").why


@pytest.mark.parametrize(
    ("diverged", "n", "scale", "answer"),
    [
        *((0, 8, "lite", FAILS), (7, 8, "lite", HOLDS), (2, 8, "lite", OPEN), (0, 7, "lite", OPEN)),
        *((3, 3, "lite", OPEN), (0, 10, "paper", FAILS), (3, 10, "paper", OPEN)),
    ],
)
def test_often(tmp_path: Path, diverged: int, n: int, scale: str, answer: str) -> None:
    """None of eight is less than one in three, seven of eight more; lite waits for eight."""
    ((_, (experiment,)), *_) = find_claim("diverges-without-scale").at(SCALES[scale])
    for seed in range(n):
        status: Status = "diverged" if seed < diverged else "finished"
        write_run(tmp_path / f"{seed}", replace(experiment, seed=seed), [50.0], status=status)
    found = verdict_on(tmp_path, "diverges-without-scale", scale)
    assert found.answer == answer
    assert f"{diverged} of {n} diverged" in found.why


def test_arms_are_described(tmp_path: Path) -> None:
    """From six seeds on the sign-flip p; what pairing buys; who is better how often."""
    write_contrast(tmp_path, "scaled-beats-softmax", 2.0, 6)
    (row,) = verdict_on(tmp_path, "scaled-beats-softmax").rows
    assert row.sign_flip_p == 2 / 64
    assert row.improvement == 1.0
    assert row.correlation is None  # one arm is constant here
    write_contrast(tmp_path / "few", "scaled-beats-softmax", 2.0, 4)
    assert verdict_on(tmp_path / "few", "scaled-beats-softmax").rows[0].sign_flip_p is None


def test_losing_at_the_wrong_init_is_not_robustness(tmp_path: Path) -> None:
    """Softmax 5 / 5 and scaled 5 / 60 at He / 0.01: robustness is refuted, not confirmed."""
    name = "scaled-is-robust-to-init"
    terms, experiments = next(iter(find_claim(name).at(SCALES["lite"])))
    for term, experiment in zip(terms, experiments, strict=True):
        setting = term.setting
        lost = setting.attention == "scaled" and ("init", 0.01) in setting.options
        base = 60.0 if lost else 5.0
        write_cell(tmp_path, experiment, [base + NOISE[i] * (1 + lost) for i in range(6)])
    found = verdict_on(tmp_path, name)
    assert found.mean == pytest.approx(-55.0, abs=0.5)
    assert found.answer == FAILS
