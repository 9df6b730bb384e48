"""Which runs and seeds a verdict rests on."""

from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.lab.paper.answers import HOLDS, OPEN
from scalednl.lab.paper.rules import RULES
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.records.run import Status
from scalednl.lab.records.runs import RunRecord, by_cell, find_runs
from scalednl.lab.report.verdicts import judge, judge_all
from tests.lab.report.builders import write_cell, write_run
from tests.lab.report.judging import (
    NOISE,
    an_hour,
    find_claim,
    no_score,
    verdict_on,
    write_contrast,
)


@pytest.mark.parametrize(
    ("seeds", "judged"), [(3, 0), (4, 4), (5, 4), (6, 6), (8, 6), (9, 9), (12, 12)]
)
def test_results_are_looked_at_when_declared(tmp_path: Path, seeds: int, judged: int) -> None:
    """Between two looks the seeds that came since wait; before the first nothing is judged."""
    write_contrast(tmp_path, "scaled-beats-softmax", 2.0, seeds)
    found = verdict_on(tmp_path, "scaled-beats-softmax")
    assert found.rows[0].n == judged
    assert found.rows[0].seeds == tuple(range(judged))
    assert (found.answer == HOLDS) == (judged > 0)
    if not judged:
        assert "the first look is at 4" in found.why


@pytest.mark.parametrize(("scale", "n", "answer"), [("lite", 6, OPEN), ("paper", 10, HOLDS)])
def test_the_level_of_a_look_is_stricter(tmp_path: Path, scale: str, n: int, answer: str) -> None:
    """P between 0.017 and 0.05 decides where n is fixed, and not at one of four looks."""
    difference = {"lite": 0.85, "paper": 0.5}[scale]
    write_contrast(tmp_path, "scaled-beats-softmax", difference, n, spread=5.0, scale=scale)
    (row,) = verdict_on(tmp_path, "scaled-beats-softmax", scale).rows
    assert row.p is not None
    assert 0.017 < row.p < 0.05
    assert row.answer == answer


@pytest.mark.parametrize(("scale", "n"), [("paper", 9), ("smoke", 1)])
def test_a_fixed_number_of_seeds_is_waited_for(tmp_path: Path, scale: str, n: int) -> None:
    """Before the declared seeds are there, nothing is judged: each look would be one more."""
    write_contrast(tmp_path, "scaled-beats-softmax", 2.0, n, scale=scale)
    found = verdict_on(tmp_path, "scaled-beats-softmax", scale)
    assert found.answer == OPEN
    assert f"the first look is at {RULES[scale].looks[0]}" in found.why


def test_seeds_are_judged_in_order(tmp_path: Path) -> None:
    """With a seed missing, later ones wait: else one look would have several answers."""
    ((_, experiments), *_) = find_claim("scaled-beats-softmax").at(SCALES["lite"])
    for experiment in experiments:
        write_cell(tmp_path, experiment, [40.0 + x for x in NOISE[:3]])
        write_cell(tmp_path, experiment, [41.0, 42.0, 43.0], first_seed=4)
    (row,) = verdict_on(tmp_path, "scaled-beats-softmax").rows
    assert (row.n, row.available) == (0, 3)


def test_repeating_a_diverged_run_hides_nothing(tmp_path: Path) -> None:
    """Of two runs of a training and seed that have ended, the earlier counts."""
    ((_, (experiment,)), *_) = find_claim("diverges-without-scale").at(SCALES["lite"])
    for seed in range(8):
        one = replace(experiment, seed=seed)
        ended: tuple[tuple[str, Status, str], ...] = (
            ("a", "finished", "02"),
            ("b", "diverged", "01"),
        )
        for name, status, day in ended:
            date = f"2026-01-{day}"
            write_run(tmp_path / f"{name}{seed}", one, [50.0], status, date=date)
    found = verdict_on(tmp_path, "diverges-without-scale")
    assert "8 of 8 diverged" in found.why


def test_a_diverged_run_counts_as_chance(tmp_path: Path) -> None:
    """It neither blocks the verdict nor flatters it: 90 % error on ten classes."""
    ((_, (softmax, scaled)), *_) = find_claim("scaled-beats-softmax").at(SCALES["lite"])
    write_cell(tmp_path, softmax, [40.0, 41.0, 39.0, 40.0])
    write_cell(tmp_path, scaled, [38.0, 38.5, 37.0])
    write_run(tmp_path / "lost", replace(scaled, seed=3), [], status="diverged")
    (row,) = verdict_on(tmp_path, "scaled-beats-softmax").rows
    assert row.diverged == 1
    assert row.summary is not None
    assert row.summary.mean == pytest.approx((2.0 + 2.5 + 2.0 + (40.0 - 90.0)) / 4)


def test_only_common_finished_seeds_count(tmp_path: Path) -> None:
    """Seeds that one side lacks, and runs that did not finish, are left out."""
    ((_, (softmax, scaled)), *_) = find_claim("scaled-beats-softmax").at(SCALES["smoke"])
    write_cell(tmp_path, softmax, [9.0, 9.4, 9.2, 9.4])
    write_cell(tmp_path, scaled, [8.0, 8.0])
    write_run(tmp_path / "cut", replace(scaled, seed=2), [1.0], status="interrupted")
    (row,) = verdict_on(tmp_path, "scaled-beats-softmax", "smoke").rows
    assert row.seeds == (0, 1)
    assert row.summary is not None
    assert row.summary.mean == pytest.approx(1.2)


def test_runs_of_another_scale_do_not_count(tmp_path: Path) -> None:
    """Runs of the full recipe say nothing about the miniature, and the other way round."""
    write_contrast(tmp_path, "scaled-beats-softmax", 2.0, 10, scale="paper")
    runs = by_cell(find_runs([tmp_path]))
    assert judge(find_claim("scaled-beats-softmax"), SCALES["lite"], runs, no_score) is None
    assert {one.scale for one in judge_all(runs, no_score, an_hour)} == {"paper"}


def test_scores_are_judged_by_seeds(tmp_path: Path) -> None:
    """The claim about maps compares scores of attention, of finished runs that have one."""
    ((_, (softmax, scaled)), *_) = find_claim("softmax-maps-are-vertical").at(SCALES["lite"])
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
    found = judge(find_claim("softmax-maps-are-vertical"), SCALES["lite"], runs, share)
    assert found is not None
    assert (found.answer, found.n, found.margin) == (HOLDS, 4, 0.05)
    assert found.mean == pytest.approx(0.4 + sum(NOISE[:4]) / 40)
