"""A plan as lines and as values."""

import json
from dataclasses import replace
from pathlib import Path

from scalednl.lab.paper.artefacts import find_artefacts
from scalednl.lab.paper.hours import Rates
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.sweep.plan import SweepPlan, make_sweep_plan
from scalednl.lab.sweep.plan_view import plan_lines, plan_values


def _plan(out: Path) -> SweepPlan:
    return make_sweep_plan(find_artefacts(["table1_importance"]), SCALES["smoke"], out, threads=1)


def test_a_plan_is_every_run_and_totals(tmp_path: Path) -> None:
    """One line a run, and as values the same."""
    plan = _plan(tmp_path)
    lines = list(plan_lines(plan))
    for run in plan.runs:
        assert sum(line.split()[:1] == [run.name] for line in lines) == 1
    assert "12 runs: 0 done, 12 to do (12 waiting)" in lines
    values = plan_values(plan)
    assert values["totals"]["to_do"] == len(values["runs"]) == 12
    assert json.loads(json.dumps(values)) == values


def test_a_line_says_how_far_a_run_is(tmp_path: Path) -> None:
    """Epochs that are done, why it failed, and what it waits for."""
    plan = _plan(tmp_path)
    first, second, third, *rest = plan.runs
    runs = (
        replace(first, state="interrupted", epochs_done=3),
        replace(second, state="failed", note="no memory"),
        replace(third, after=("first",)),
        *rest,
    )
    lines = {line.split()[0]: line for line in plan_lines(replace(plan, runs=runs)) if line.split()}
    assert lines[first.name].endswith("interrupted after epoch 3")
    assert lines[second.name].endswith("failed: no memory")
    assert lines[third.name].endswith("waiting for first")


def test_totals_add_up(tmp_path: Path) -> None:
    """Hours of all runs, and of what is left: here at the plan's rates, on the paper's GPU."""
    plan = _plan(tmp_path)
    ended = replace(plan.runs[0], state="finished")
    paced = replace(plan, runs=(ended, *plan.runs[1:]), rates=Rates(1e9, "made up"))
    values = plan_values(paced)
    totals, runs = values["totals"], values["runs"]
    assert (totals["done"], totals["to_do"]) == (1, 11)
    assert totals["states"] == {"finished": 1, "waiting": 11}
    assert runs[0]["hours_left_here"] == 0
    for name in ("here", "paper_gpu"):
        total = sum(run[f"hours_{name}"] for run in runs)
        assert abs(totals[f"hours_{name}"] - total) < 1e-9
        left = total - runs[0][f"hours_{name}"]
        assert abs(totals[f"hours_left_{name}"] - left) < 1e-9
