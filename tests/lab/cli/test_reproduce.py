"""`scalednl reproduce` as a person meets it."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.grids import Artefact, Cell
from scalednl.lab.paper.scales import SCALES, PaperSetting
from tests.lab.cli.conftest import Call, Refused, Run
from tests.lab.training.builders import small


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["table"], 2, "'table' could be table1_importance, table2_initialization, table3_heads"),
        (["tabel3"], 2, "did you mean 'table3'"),
        (["all", "--only"], 2, "--only takes KEY=VALUE, such as data=cifar10, got nothing"),
        (["--only", "view=base", "table1"], 2, "got 'table1'; tables are named before it"),
        (["table1", "--only", "view=flat"], 2, "view is one of base, magnitude, direction"),
        (["table1", "--data", "mnist"], 2, "has data=mnist; data is one of pairs, cifar10"),
        (["table1", "--networks", "vgg"], 2, "network is one of preresnet8, preresnet56"),
        ([], 2, "name what to reproduce: table1_importance"),
        (["all", "--scale", "large"], 2, "smoke"),
        (["all", "--jobs", "0"], 2, "--jobs must be at least 1, got 0"),
        (["all", "--seeds", "0"], 2, "--seeds must be at least 1, got 0"),
        (["all", "--retries", "-1"], 2, "--retries must be at least 0, got -1"),
        (["all", "--json"], 2, "--json is for --plan: add --plan"),
        (["all", "--gpus", "0.5"], 2, "are for --engine ray"),
        (["all", "--engine", "ray", "--jobs", "2"], 2, "--jobs is for --engine local"),
        (["all", "--threads", "100000"], 2, "on this machine, got 100000"),
        (["table3_heads", "--scale", "lite"], 1, "scalednl data get cifar10"),
        (["table1", "--scale", "lite", "--data", "cifar100"], 1, "scalednl data get cifar100"),
        (["all", "--out", "/proc/nowhere"], 1, "cannot be written"),
        (["all", "--out", "/dev/null"], 2, "is not a folder"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_mistakes_are_one_sentence(
    refused_at_once: Refused, arguments: list[str], code: int, said: str
) -> None:
    """Each names what was passed and what would work; nothing is written."""
    refused_at_once(["reproduce", *arguments], code, said)


def test_the_plan_loads_no_torch(tmp_path: Path, run_here: Run) -> None:
    """--plan prints every run or, with --json, values; the example of the help works."""
    code = (
        "import sys; from scalednl.lab.cli import main; main(); assert 'torch' not in sys.modules"
    )
    command = ["reproduce", "table3_heads", "--scale", "paper", "--plan", "--out", str(tmp_path)]
    run = _python(code, *command)
    assert "140 runs: 0 done, 140 to do (140 waiting)" in run
    assert "on the paper's GPU: " in run
    values = json.loads(run_here(*command, "--json").stdout)
    assert len(values["runs"]) == 140
    assert "scalednl reproduce table1`" in run_here("reproduce", "--help").stdout
    assert not list(tmp_path.iterdir())


def _python(code: str, *arguments: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return run.stdout


@pytest.fixture
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    """One table of one run of a second."""
    cell = Cell("scaled", "base", PaperSetting("cifar10", "preresnet56", "scaled"))
    little = Artefact("little", "Little", "", (cell,))
    monkeypatch.setitem(artefacts(), "little", little)
    changes = {"epochs": 1, "batch": 32, "pairs": small().pairs}
    scale = replace(SCALES["smoke"], seeds=1, changes=changes)
    monkeypatch.setitem(SCALES, "smoke", scale)


@pytest.mark.usefixtures("_little", "unchecked_shapes")
def test_reproduce_ends_with_the_page(tmp_path: Path, call: Call) -> None:
    """Runs are trained, told and left alone the second time; the last line is the page's path."""
    command = ["reproduce", "little", "--out", str(tmp_path), "--threads", "1"]
    code, text = call(*command)
    assert code == 0, text
    lines = text.splitlines()
    assert lines[0].startswith("1 run, 1 to do, 1 at a time; about ")
    ended = [line for line in lines if line.startswith("[1/1]")]
    assert len(ended) == 1
    assert ended[0].startswith("[1/1] pairs-scaled-heads-1-allx1-seed0: finished: test error")
    assert lines[-2] == "1 run: 1 finished, 0 diverged, 0 failed, 0 left"
    assert Path(lines[-1]) == tmp_path / "report.html"
    assert (tmp_path / "report.html").is_file()
    result = json.loads((tmp_path / "pairs-scaled-heads-1-allx1-seed0" / "result.json").read_text())
    assert result["origin"]["command"].startswith("scalednl reproduce little")
    code, text = call(*command, "--no-report")
    assert (code, text.splitlines()) == (0, lines[-2:-1])


@pytest.mark.usefixtures("_little")
@pytest.mark.parametrize("command", [["reproduce", "little"], ["demo"]])
def test_a_page_that_cannot_be_written_is_known_at_once(
    command: list[str], tmp_path: Path, call: Call
) -> None:
    """A file of the user's own in the page's place is named before anything is trained."""
    (tmp_path / "report.md").write_text("my notes")
    code, text = call(*command, "--out", str(tmp_path))
    assert code == 2
    assert "report.md is not a report and would be replaced: choose another folder" in text
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


@pytest.mark.usefixtures("_little", "unchecked_shapes")
def test_failed_runs_are_shown_with_their_logs(tmp_path: Path, call: Call) -> None:
    """Exit code 1, the sentence, the end of the log, and the command to resume with."""
    command = ["reproduce", "little", "--out", str(tmp_path), "--retries", "0"]
    command += ["--device", "cpu", "--precision", "fp16"]
    code, text = call(*command, "--no-report")
    assert code == 1
    sentence = "fp16 training needs a GPU: use --precision bf16 on a CPU"
    assert f"failed: pairs-scaled-heads-1-allx1-seed0-fp16: {sentence}" in text
    assert f"  | {sentence}" in text
    assert f"Resume with: scalednl reproduce little --out {tmp_path}" in text
    code, text = call(*command, "--plan")
    assert code == 0
    assert f"failed: {sentence}" in text


def test_a_part_of_a_table(tmp_path: Path, call: Call) -> None:
    """`--only`, again and again, and its shorthands; the plan says what it is a part of."""
    command = ["reproduce", "table1", "--scale", "lite", "--seeds", "1", "--out", str(tmp_path)]
    command += ["--only", "view=base,direction", "--data", "cifar10", "--only", "attention=scaled"]
    code, text = call(*command, "--networks", "preresnet20", "--plan")
    assert code == 0, text
    part = "view=base,direction attention=scaled network=preresnet20 data=cifar10"
    assert f"table1_importance, only {part}: 2 runs" in text
    values = json.loads(call(*command, "--plan", "--json")[1])
    assert values["only"] == "view=base,direction attention=scaled data=cifar10"
    assert {run["data"] for run in values["runs"]} == {"cifar10"}


@pytest.mark.usefixtures("_little", "unchecked_shapes")
def test_the_printed_command_makes_the_run(tmp_path: Path, call: Call) -> None:
    """A run that is trained by the command of the plan counts as the run of the table."""
    plan = ["reproduce", "little", "--out", str(tmp_path / "my runs"), "--plan"]
    plan += ["--threads", "1", "--device", "cpu"]
    (run,) = json.loads(call(*plan, "--json")[1])["runs"]
    assert f"\n      {run['command']}\n" in call(*plan)[1]
    program, *arguments = shlex.split(run["command"])
    assert program == "scalednl"
    small_data = [f"--pairs.{name}" for name in ("train-images", "test-images")]
    assert all(option in arguments for option in small_data)
    code, text = call(*arguments)
    assert code == 0, text
    (made,) = json.loads(call(*plan, "--json")[1])["runs"]
    assert (made["state"], made["path"]) == ("finished", run["path"])
