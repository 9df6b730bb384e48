"""Files of a user's own on the command line."""

from pathlib import Path

import pytest

from scalednl.errors import UsageError
from scalednl.lab.cli.own_code import load_own_code
from scalednl.models.foreign_network import make_foreign
from tests.lab.cli.conftest import Refused, Run
from tests.lab.training.builders import OPTIONS
from tests.lab.training.own_networks import SOURCE, write_own


def test_a_named_function_becomes_its_name(tmp_path: Path) -> None:
    """With or without an equals sign; all other arguments stay as they are."""
    path = write_own(tmp_path, "named.py")
    for options in ([f"--model={path}:build"], ["--model", f"{path}:build"]):
        found = load_own_code(["train", *options, "--epochs", "3", "--x=1"])
        assert found == ["train", "--model", "named:build", "--epochs", "3", "--x=1"]
    kept = ["train", "--model", "timm:resnet18", "--at", "a.py:b", "--model"]
    assert load_own_code(kept) == kept


def test_a_file_is_loaded_for_any_command(tmp_path: Path) -> None:
    """--code is gone afterwards; without a file it is a mistake."""
    path = write_own(tmp_path, "loaded.py")
    assert load_own_code(["eval", "--code", str(path), "run"]) == ["eval", "run"]
    assert make_foreign("loaded:build", 3)
    for options in (["--code"], ["--code="]):
        with pytest.raises(UsageError, match="--code must name a file"):
            load_own_code(["eval", *options])


@pytest.mark.usefixtures("unchecked_shapes")
def test_train_eval_and_report_of_an_own_network(
    tmp_path: Path, run_here: Run, refused: Refused
) -> None:
    """Without a recipe; the page has a row of it, and needs neither the file nor torch."""
    path, out = write_own(tmp_path, "whole.py"), str(tmp_path / "runs" / "a")
    options = ["--data", "pairs", *OPTIONS, "--epochs", "1", "--blocks", "1", "--no-augment"]
    command = ["train", *options, "--model", f"{path}:build", "--at", "stem", "--out", out]
    run = run_here(*command)
    assert run.returncode == 0, run.stderr
    assert run_here("eval", out, "--code", str(path)).returncode == 0
    page = tmp_path / "report.html"
    assert run_here("report", str(tmp_path / "runs"), "--out", str(page)).returncode == 0
    assert (
        "| whole:build | scaled, 1 block, 4 heads, behind stem |"
        in (tmp_path / "report.md").read_text()
    )
    write_own(tmp_path, "whole.py", SOURCE.replace("0.2", "0.3"))
    refused(["eval", out, "--code", str(path)], 2, "whole.py has changed since this run began")
