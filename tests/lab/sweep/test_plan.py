"""Plans: what is to be run, what is there already, and what it costs."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.lab.config import Experiment
from scalednl.lab.paper.artefacts import find_artefacts
from scalednl.lab.paper.scales import SCALES, scale_at
from scalednl.lab.recipes import PRETRAIN
from scalednl.lab.records.failure import write_failure
from scalednl.lab.records.run import RunFolder
from scalednl.lab.sweep.plan import PlannedRun, SweepPlan, make_sweep_plan
from scalednl.lab.sweep.plan_view import plan_lines
from tests.lab.report.builders import write_run


def _plan(out: Path, name: str = "table1_importance", scale: str = "smoke") -> SweepPlan:
    return make_sweep_plan(find_artefacts([name]), SCALES[scale], out, threads=1)


def _begin(path: Path, experiment: Experiment, status: str = "interrupted") -> RunFolder:
    """A run directory as training leaves it; not flushed to the disk, for speed."""
    path.mkdir(parents=True)
    run = {"device": "cpu", "threads": 1}
    config = {"schema": 1, "experiment": experiment.as_dict(), "run": run}
    (path / "config.json").write_text(json.dumps(config))
    result = {"schema": 1, "status": status, "seconds": 10.0, "test_error_pct": {"last": 20.0}}
    (path / "result.json").write_text(json.dumps(result))
    lines = [f'{{"schema": 1, "epoch": {epoch}}}\n' for epoch in range(2)]
    (path / "epochs.jsonl").write_text("".join(lines))
    return RunFolder(path)


def test_shared_cells_are_one_run(tmp_path: Path) -> None:
    """All tables together need fewer runs than one by one; each knows who needs it; seeds count."""
    every = _plan(tmp_path, "all").runs
    assert len({run.name for run in every}) == len({run.path for run in every}) == len(every) == 60
    base = next(run for run in every if run.name == "pairs-scaled-heads-1-4000x4-seed1")
    assert {"table1_importance", "table2_initialization", "table3_heads"} <= set(base.artefacts)
    assert {run.experiment.seed for run in every} == {0, 1}
    three = make_sweep_plan(find_artefacts(["all"]), SCALES["smoke"], tmp_path, seeds=3)
    assert len(three.runs) == 90


def test_fine_tuning_waits_for_the_pretraining_of_its_seed(tmp_path: Path) -> None:
    """Each of Tiny-ImageNet's runs comes after a pretraining of its own seed, and begins there."""
    runs = _plan(tmp_path, "table4_backbones", "paper").runs
    first = {run.experiment.seed: run for run in runs if run.experiment.recipe == PRETRAIN}
    tuned = [run for run in runs if run.experiment.finetune]
    assert sorted(first) == [0, 1, 2]
    assert len(tuned) == 2 * 3
    for run in tuned:
        before = first[run.experiment.seed]
        assert run.after == (before.name,)
        assert run.experiment.weights == str(before.path.absolute())
    assert all(not run.after for run in runs if not run.experiment.finetune)
    _begin(tmp_path / "mine", first[1].experiment, "finished")
    moved = _plan(tmp_path, "table4_backbones", "paper").runs
    begins = {run.experiment.seed: run.experiment.weights for run in moved if run.after}
    assert begins[1] == str(tmp_path / "mine")
    assert begins[0] == str(first[0].path.absolute())
    assert PRETRAIN not in {run.experiment.recipe for run in _plan(tmp_path, scale="paper").runs}


def test_evidence_goes_line_by_line_and_look_by_look(tmp_path: Path) -> None:
    """Four seeds of a line come first, then its others, then the next line."""
    runs = _plan(tmp_path, "evidence", "lite").runs
    order = [(run.artefacts[0], run.experiment.seed) for run in sorted(runs, key=lambda r: r.turn)]
    first, second = ([seed for name, seed in order if name == f"evidence_0{n}"] for n in (1, 2))
    assert first == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3 + [5] * 3
    assert second == [0, 1, 2, 3, 4, 5]
    assert [name for name, _ in order] == sorted(name for name, _ in order)


def test_of_two_folders_the_one_further_on_counts(tmp_path: Path) -> None:
    """A copy that is less far, or was cut where the other diverged, is not resumed."""
    first, second = _plan(tmp_path).runs[:2]
    _begin(first.path, first.experiment, "diverged")
    _begin(tmp_path / "copy", first.experiment, "interrupted")
    whole = _begin(second.path, second.experiment, "interrupted")
    (whole.path / "epochs.jsonl").write_text('{"schema": 1, "epoch": 0}\n' * 3)
    _begin(tmp_path / "zzz", second.experiment, "interrupted")
    now = _plan(tmp_path).runs
    assert (now[0].path, now[0].state) == (first.path, "diverged")
    assert now[1].path == second.path


def test_what_is_there_counts(tmp_path: Path) -> None:
    """Finished, diverged, interrupted, failed and locked runs are told apart."""
    fresh = _plan(tmp_path).runs
    states = ["finished", "diverged", "interrupted", "running", "running"]
    folders = [
        _begin(run.path, run.experiment, state)
        for run, state in zip(fresh[: len(states)], states, strict=True)
    ]
    write_failure(fresh[3].path, "it broke")
    write_failure(fresh[5].path, "before it began")
    with folders[4].locked():
        now = _plan(tmp_path).runs
    assert [run.state for run in now[:7]] == [
        *("finished", "diverged", "interrupted", "failed", "running", "failed", "waiting")
    ]
    assert now[2].epochs_done == 2
    assert (now[3].note, now[5].note) == ("it broke", "before it began")


def test_the_same_cell_and_seed_is_the_same_run(tmp_path: Path) -> None:
    """Under another name, in another order of products or with its own weights, it is the run."""
    first, second = _plan(tmp_path).runs[:2]
    other = replace(first.experiment, block=replace(first.experiment.block, order="quadratic"))
    _begin(tmp_path / "mine", other, "finished")
    found = _plan(tmp_path).runs
    assert (found[0].state, found[0].path, found[0].experiment) == (
        *("finished", tmp_path / "mine"),
        other,
    )
    assert found[1].state == second.state == "waiting"


def test_half_precision_is_another_run(tmp_path: Path) -> None:
    """A bf16 run does not stand for a float32 one, nor the other way round; each has a folder."""
    first = _plan(tmp_path).runs[0]
    half = replace(first.experiment, precision="bf16")
    write_run(tmp_path / "half", half, [30.0])
    assert _plan(tmp_path).runs[0].state == "waiting"
    chosen = find_artefacts(["table1_importance"])
    runs = make_sweep_plan(chosen, scale_at("smoke", "bf16"), tmp_path).runs
    assert (runs[0].state, runs[0].path) == ("finished", tmp_path / "half")
    assert not {run.path for run in runs} & {run.path for run in _plan(tmp_path).runs}
    write_run(first.path, half, [30.0], date="2020")
    found = _plan(tmp_path).runs[0]
    assert (found.state, found.note) == (
        *("damaged", "it holds another experiment (precision is bf16, not fp32)"),
    )


def test_folders_that_hold_something_else(tmp_path: Path) -> None:
    """Another experiment, a damaged config and another schema are told, each in a sentence."""
    runs = _plan(tmp_path).runs
    _begin(runs[0].path, replace(runs[0].experiment, lr=0.7))
    for run, text in ((runs[1], "{"), (runs[2], '{"schema": 99}'), (runs[3], "[]")):
        run.path.mkdir()
        (run.path / "config.json").write_text(text)
    (runs[4].path / "checkpoints").mkdir(parents=True)
    _begin(runs[5].path, runs[5].experiment)
    (runs[5].path / "result.json").write_text("nonsense")
    now = _plan(tmp_path).runs
    assert [run.state for run in now[:6]] == [*["damaged"] * 5, "interrupted"]
    assert now[0].note == "it holds another experiment (lr is 0.7, not 0.05)"
    assert "config.json is damaged" in now[1].note
    assert "has schema 99, and this version reads 1" in now[2].note
    lines = "\n".join(plan_lines(_plan(tmp_path)))
    assert "damaged: it holds another experiment (lr is 0.7, not 0.05)" in lines


def test_a_thousand_runs_are_planned_without_torch(tmp_path: Path) -> None:
    """Every run has its line, 400 of them done already, and nothing that could train is loaded."""
    runs = make_sweep_plan(find_artefacts(["all"]), SCALES["paper"], tmp_path, seeds=20).runs
    assert len(runs) > 1000
    for run in runs[:400]:
        _begin(run.path, run.experiment, "finished")
    arguments = ["reproduce", "all", "--scale", "paper", "--seeds", "20", "--plan"]
    called = f"sys.argv[1:] = {[*arguments, '--out', str(tmp_path)]!r}; main()"
    imports = "import sys; from scalednl.lab.cli import main"
    code = f"{imports}; {called}; assert 'torch' not in sys.modules"
    planned = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert planned.returncode == 0, planned.stderr
    assert f"{len(runs):,} runs: 400 done" in planned.stdout
    assert planned.stdout.count("  finished") == 400


def test_what_is_left_is_the_share_of_the_epochs(tmp_path: Path) -> None:
    """Nothing for a finished run, half for one that is half done, at the pace of the folder."""
    run = _plan(tmp_path).runs[0]
    _begin(run.path, run.experiment, "finished")
    plan = _plan(tmp_path)
    assert plan.rates.seconds(run.experiment) == pytest.approx(10)
    assert plan.runs[0].seconds_left(plan.rates) == 0
    half = PlannedRun("x", run.experiment, tmp_path, state="interrupted", epochs_done=2)
    assert half.seconds_left(plan.rates) == pytest.approx(10 * (1 - 2 / run.experiment.epochs))
