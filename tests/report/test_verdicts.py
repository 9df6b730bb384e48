"""Verdicts say what the runs say, and no more."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalednl.paper.artefacts import artefacts
from scalednl.paper.claims import claims
from scalednl.paper.scales import SCALES
from scalednl.report.cells import by_cell
from scalednl.report.costs import judge_costs
from scalednl.report.runs import Run, find_runs
from scalednl.report.verdicts import FAILS, HOLDS, UNCLEAR, judge
from tests.report.builders import cell_experiment, write_cell, write_run

SOFTMAX = cell_experiment("table4_backbones", "4 heads", "softmax")
SCALED = cell_experiment("table4_backbones", "4 heads", "scaled")
WITHOUT = cell_experiment("control_no_scale", "scaled", "without")


def _judge(
    folder: Path, name: str, key_share: Callable[[Run], float | None] = lambda _: None
) -> dict[str, Any] | None:
    runs = by_cell(find_runs([folder]))
    claim = next(c for c in claims() if c.name == name and c.setting.network == "preresnet56")
    return judge(claim, SCALES["smoke"], runs, key_share)


@pytest.mark.parametrize(
    ("softmax", "scaled", "verdict", "why"),
    [
        ([9.0, 9.5, 9.2, 9.9, 9.1, 9.4], [8.0, 8.1, 8.3, 8.0, 8.6, 8.2], HOLDS, "p = 0.031"),
        ([8.0, 8.1, 8.3, 8.0, 8.6, 8.2], [9.0, 9.5, 9.2, 9.9, 9.1, 9.4], FAILS, "p = 0.031"),
        ([9.0, 9.5, 9.2], [1.0, 1.1, 1.3], UNCLEAR, "3 seeds cannot reach"),
        ([9.0, 8.0, 9.0, 8.0, 9.0, 8.0], [8.0, 9.0, 8.5, 8.5, 9.0, 8.1], UNCLEAR, "within chance"),
    ],
)
def test_difference_against_chance(
    tmp_path: Path, softmax: list[float], scaled: list[float], verdict: str, why: str
) -> None:
    """Six clear pairs tell, three never do, and a difference within chance is not a verdict."""
    write_cell(tmp_path, SOFTMAX, softmax)
    write_cell(tmp_path, SCALED, scaled)
    judged = _judge(tmp_path, "scaled-beats-softmax")
    assert judged is not None
    assert judged["verdict"] == verdict
    assert why in judged["why"]
    differences = [a - b for a, b in zip(softmax, scaled, strict=True)]
    assert judged["contrast"]["mean"] == pytest.approx(sum(differences) / len(differences))


def test_only_common_seeds_count(tmp_path: Path) -> None:
    """Seeds that one side lacks, and runs that did not finish, are left out."""
    write_cell(tmp_path, SOFTMAX, [9.0, 9.0, 9.0])
    write_cell(tmp_path, SCALED, [8.0, 8.0], first_seed=2)
    write_run(tmp_path / "cut", replace(SCALED, seed=1), [1.0], status="interrupted")
    judged = _judge(tmp_path, "scaled-beats-softmax")
    assert judged is not None
    assert judged["contrast"]["seeds"] == [2]
    assert judged["contrast"]["mean"] == 1.0


def test_divergence_leaves_nothing_to_compare(tmp_path: Path) -> None:
    """Where runs of a comparison diverged, those that did not are no fair sample."""
    write_cell(tmp_path, SOFTMAX, [9.0] * 8)
    write_cell(tmp_path, SCALED, [8.0] * 7)
    write_run(tmp_path / "lost", replace(SCALED, seed=7), [90.0], status="diverged")
    judged = _judge(tmp_path, "scaled-beats-softmax")
    assert judged is not None
    assert judged["verdict"] == UNCLEAR
    assert "1 run diverged" in judged["why"]


def test_vertical_lines_are_judged_by_key_share(tmp_path: Path) -> None:
    """The claim about maps compares scores of attention, of finished runs only."""
    write_cell(tmp_path, SOFTMAX, [9.0] * 6)
    write_cell(tmp_path, SCALED, [9.0] * 5)
    write_run(tmp_path / "cut", replace(SCALED, seed=5), [9.0], status="interrupted")

    def share(run: Run) -> float:
        return 0.7 if "softmax" in run.name else 0.3

    judged = _judge(tmp_path, "softmax-maps-are-vertical", share)
    assert judged is not None
    assert judged["contrast"]["mean"] == pytest.approx(0.4)
    assert (judged["contrast"]["n"], judged["verdict"]) == (5, UNCLEAR)
    write_cell(tmp_path, SCALED, [9.0], first_seed=5)
    judged = _judge(tmp_path, "softmax-maps-are-vertical", share)
    assert judged is not None
    assert judged["verdict"] == HOLDS


@pytest.mark.parametrize(("one", "four", "verdict"), [(10, 10, HOLDS), (10, 11, FAILS)])
def test_counted_bytes_decide(one: int, four: int, verdict: str) -> None:
    """Whether heads take memory is a matter of counting; a quick record is not judged."""
    rows = [
        {"method": "associative", "heads": heads, "bytes_kept": kept}
        for heads, kept in ((1, one), (4, four))
    ]
    record = {"schema": "scalednl.bench.table3.v1", "rows": rows, "settings": {"batch": 2}}
    (judged,) = judge_costs([record])
    assert (judged["claim"], judged["verdict"]) == ("heads-cost-no-memory", verdict)
    assert judge_costs([{**record, "quick": True}]) == []


def test_no_runs_no_verdict(tmp_path: Path) -> None:
    """A claim that nothing here bears on is not judged; half of it is not enough."""
    assert _judge(tmp_path, "scaled-beats-softmax") is None
    write_cell(tmp_path, SOFTMAX, [9.0])
    judged = _judge(tmp_path, "scaled-beats-softmax")
    assert judged is not None
    assert (judged["verdict"], judged["contrast"]) == (UNCLEAR, None)


@pytest.mark.parametrize(
    ("diverged", "n", "verdict"),
    [(0, 10, FAILS), (8, 10, HOLDS), (10, 10, HOLDS), (3, 10, UNCLEAR), (0, 2, UNCLEAR)],
)
def test_often_is_one_in_three(tmp_path: Path, diverged: int, n: int, verdict: str) -> None:
    """None of ten is less than often, eight of ten more, three of ten neither."""
    for seed in range(n):
        status = "diverged" if seed < diverged else "finished"
        write_run(tmp_path / f"{seed}", replace(WITHOUT, seed=seed), [50.0], status=status)
    judged = _judge(tmp_path, "diverges-without-scale")
    assert judged is not None
    assert judged["verdict"] == verdict
    assert f"{diverged} of {n} diverged" in judged["why"]


def test_four_trainings_make_one_claim(tmp_path: Path) -> None:
    """Robustness is a difference of differences, taken within each seed."""
    errors = {
        ("softmax", "C/8"): [30.0, 31.0],
        ("softmax", "C"): [20.0, 20.5],
        ("scaled", "C/8"): [22.0, 22.0],
        ("scaled", "C"): [19.0, 20.0],
    }
    for (row, column), values in errors.items():
        write_cell(tmp_path, cell_experiment("figure2_embedding_channels", row, column), values)
    judged = _judge(tmp_path, "scaled-is-robust-to-channels")
    assert judged is not None
    # (30 - 20) - (22 - 19) = 7 and (31 - 20.5) - (22 - 20) = 8.5
    assert judged["contrast"]["mean"] == pytest.approx(7.75)


def test_every_claim_stands_in_a_table_that_trains_it() -> None:
    """At the full scale each claim's trainings are cells of the table that it names."""
    paper = SCALES["paper"]
    for claim in claims():
        cells = {experiment.cell for _, experiment in artefacts()[claim.artefact].trainings(paper)}
        for _, setting in claim.terms:
            experiment = paper.experiment(setting)
            assert experiment is not None
            assert experiment.cell in cells
        weights = [weight for weight, _ in claim.terms]
        assert sum(weights) == 0 or claim.quantity == "diverged"


def test_the_papers_own_numbers_support_its_claims() -> None:
    """Every claim that printed errors can test is positive in them: none was turned round."""
    printed = {
        cell.setting: cell.printed
        for artefact in artefacts().values()
        for cell in artefact.cells
        if cell.printed is not None
    }
    tested = 0
    for claim in claims():
        values = [(weight, printed.get(setting)) for weight, setting in claim.terms]
        if claim.quantity == "error" and all(value is not None for _, value in values):
            assert sum(weight * value for weight, value in values if value is not None) > 0, claim
            tested += 1
    assert tested >= 30
