"""What a plan can decide, before it runs."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.lab.paper.artefacts import find_artefacts
from scalednl.lab.paper.claims import main_claims
from scalednl.lab.paper.rules import POWER, RULES
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.stats import power
from scalednl.lab.sweep.outlook import Outlook, measured_deviations, outlook_lines, outlooks
from scalednl.lab.sweep.plan import SweepPlan, make_sweep_plan
from tests.lab.report.builders import cell_experiment, write_cell, write_run


def _plan(folder: Path, *names: str, scale: str = "lite", seeds: int | None = None) -> SweepPlan:
    return make_sweep_plan(find_artefacts(list(names)), SCALES[scale], folder, seeds, threads=2)


def _outlooks(plan: SweepPlan) -> dict[str, Outlook]:
    found, _ = outlooks(plan, measured_deviations(plan))
    return {one.claim.name: one for one in found}


def test_what_is_seen_has_the_power_that_is_said(tmp_path: Path) -> None:
    """The difference named has 80 % power at the planned seeds, for two arms and for four."""
    found = _outlooks(_plan(tmp_path, "table1_importance", seeds=6))
    sd = RULES["lite"].run_sd
    pooled = math.sqrt(sd["cifar10"] ** 2 + sd["cifar100"] ** 2) / 2
    for name, arms in (
        ("softmax-loses-without-magnitude", 2),
        ("scaled-makes-more-of-directions", 4),
    ):
        one = found[name]
        assert one.sees is not None
        effect = one.sees / (pooled * math.sqrt(arms))
        level = RULES["lite"].level(2) / len(main_claims(SCALES["lite"]))
        assert power(6, effect, level) == pytest.approx(POWER, abs=1e-3)
        assert one.seeds == 6


def test_seeds_between_looks_do_not_count(tmp_path: Path) -> None:
    """Eight planned seeds are judged as six; three are never judged."""
    assert (
        _outlooks(_plan(tmp_path, "table1_importance", seeds=8))["scaled-uses-direction"].seeds == 6
    )
    few = _outlooks(_plan(tmp_path, "table1_importance", seeds=3))["scaled-uses-direction"]
    assert (few.sees, few.in_reach) == (None, False)


def test_runs_that_are_there_give_the_deviation(tmp_path: Path) -> None:
    """Finished runs of a folder replace what is assumed: a smaller spread, a smaller difference."""
    experiment = cell_experiment("table1_importance", "softmax", "base", "lite")
    before = _outlooks(_plan(tmp_path, "table1_importance", seeds=6))["scaled-uses-direction"]
    write_cell(tmp_path, experiment, [30.0, 30.1, 30.2, 30.1, 30.0, 30.2, 30.1])
    plan = _plan(tmp_path, "table1_importance", seeds=6)
    deviations = measured_deviations(plan)
    assert deviations.by_data["cifar10"] == pytest.approx(0.0816, abs=1e-3)
    assert deviations.measured == {"cifar10": 7}
    after = _outlooks(plan)["scaled-uses-direction"]
    assert before.sees is not None
    assert after.sees is not None
    assert after.sees < before.sees


def test_the_plan_says_what_it_cannot_decide(tmp_path: Path) -> None:
    """Claims out of reach name the missing seeds and hours; those not trained are listed."""
    plan = _plan(tmp_path, "table2_initialization", seeds=4)
    text = "\n".join(outlook_lines(plan))
    assert "with 4 seeds you can see" in text
    assert "out of reach:" in text
    assert "more seeds (" in text
    assert "Not trained by this plan:" in text
    assert "scaled-is-robust-to-channels" in text.split("Not trained by this plan:")[1]
    assert "the paper prints 0.44" in text  # (5.91 - 5.73 + 25.82 - 25.12) / 2


def test_differences_that_cannot_be_are_not_promised(tmp_path: Path) -> None:
    """Two seeds would see 500 points where errors differ by 100: they cannot decide."""
    plan = _plan(tmp_path, "table1_importance", scale="smoke")
    found = _outlooks(plan)
    for name, largest in (
        ("softmax-loses-without-magnitude", 100),
        ("scaled-makes-more-of-directions", 200),
    ):
        assert found[name].largest == largest
        assert found[name].is_blind
        assert not found[name].in_reach
    text = "\n".join(outlook_lines(plan))
    assert not re.search(r"see \d{3}", text)
    assert "(0 h)" not in text
    assert "e+0" not in text
    assert re.search(r"2 seeds cannot decide it.* more seeds \(\d+ min \d\d s\) would be", text)


def test_divergence_is_counted_in_runs(tmp_path: Path) -> None:
    """Eight trainings of which none diverges would refute the claim; fewer cannot."""
    name = "diverges-without-scale"
    for seeds, reached in ((4, True), (3, False)):
        # Both CIFAR data sets train it.
        one = _outlooks(_plan(tmp_path, "control_no_scale", seeds=seeds))[name]
        assert (one.seeds, one.in_reach) == (2 * seeds, reached)


def test_files_that_say_nonsense_do_not_stop_a_plan(tmp_path: Path) -> None:
    """Equal errors, and results no run can have, leave the assumed deviation in place."""
    experiment = cell_experiment("table1_importance", "softmax", "base", "lite")
    write_cell(tmp_path, experiment, [30.0] * 8)
    for number, odd in enumerate(([1], "x", {"last": 1e300}, {"last": 10**400}, {"last": None})):
        one = replace(experiment, seed=20 + number)
        file = write_run(tmp_path / f"odd{number}", one, [30.0]).path / "result.json"
        values = json.loads(file.read_text())
        file.write_text(json.dumps(values | {"test_error_pct": odd, "seconds": 10**400}))
    plan = _plan(tmp_path, "table1_importance")
    found = measured_deviations(plan)
    assert found.by_data == RULES["lite"].run_sd
    assert list(outlook_lines(plan))
