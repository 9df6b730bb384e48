"""Files of a user's own on the command line: loaded, replaced by names, or one sentence."""

from pathlib import Path

import pytest

from scalednl.attentions import ATTENTIONS
from scalednl.errors import UsageError
from scalednl.lab.cli import parse
from scalednl.lab.cli.code_options import take_code
from scalednl.models.foreign_network import make_foreign
from tests.lab.cli.conftest import Refused, Run
from tests.lab.training.builders import OPTIONS
from tests.lab.training.own_networks import SOURCE, write_own

CODE = """
import torch, scalednl

@scalednl.register_attention
def sigmoid(theta, phi):
    return torch.sigmoid(theta @ phi.mT) / phi.shape[-2]

def build(num_classes):
    return torch.nn.Linear(3, num_classes)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with an attention and a network."""
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return path


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (["eval", "RUN", "--code", "FILE", "--json"], ["eval", "RUN", "--json"]),
        (["eval", "--code=FILE", "RUN"], ["eval", "RUN"]),
        (
            ["train", "x", "--block.attention", "FILE:sigmoid"],
            ["train", "x", "--block.attention", "sigmoid"],
        ),
        (
            ["train", "x", "--block.attention=FILE:sigmoid"],
            ["train", "x", "--block.attention=sigmoid"],
        ),
        (
            ["train", "--model", "FILE:build", "--seed", "1"],
            ["train", "--model", "mine:build", "--seed", "1"],
        ),
        (
            ["reproduce", "--attention", "FILE:sigmoid", "FILE:sigmoid"],
            ["reproduce", "--attention", "sigmoid", "sigmoid"],
        ),
        (["report", "runs", "-o", "a.py:b"], ["report", "runs", "-o", "a.py:b"]),
    ],
)
def test_files_become_names(file: Path, given: list[str], left: list[str]) -> None:
    """What is left is what the parsers know; other values stay as they are."""
    assert take_code([word.replace("FILE", str(file)) for word in given]) == left


def test_what_was_named_is_loaded(file: Path) -> None:
    """The attention is registered, and the network's function is found by its name."""
    take_code(["--code", str(file)])
    assert ATTENTIONS["sigmoid"].function is not None
    assert make_foreign("mine:build", 7).out_features == 7


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--code"], "--code must be followed by a Python file"),
        (["--code", "absent.py"], r"absent\.py cannot be read"),
        (["--attention", "FILE:sigmod"], "has no attention 'sigmod': it registers sigmoid"),
        (["--attention", "EMPTY:f"], "registers no attention: put @scalednl.register_attention"),
        (["--model", "FILE:bild"], "has no function 'bild'; did you mean 'build'"),
    ],
)
def test_mistakes_are_one_sentence(file: Path, given: list[str], sentence: str) -> None:
    """A missing file, and names that the file does not have."""
    empty = file.with_name("empty.py")
    empty.write_text("def f(theta, phi): return theta")
    words = [w.replace("FILE", str(file)).replace("EMPTY", str(empty)) for w in given]
    with pytest.raises(UsageError, match=sentence):
        take_code(words)


def test_recipes_exist_for_the_attention(file: Path) -> None:
    """`train NAME-WITH-IT` and `--block.attention` parse; the name is unknown before."""
    with pytest.raises(UsageError, match="no recipe is called 'pairs-sigmoid'"):
        parse(["train", "pairs-sigmoid"])
    assert callable(parse(["train", "pairs-sigmoid", "--code", str(file)]))
    assert callable(parse(["train", "pairs-scaled", "--block.attention", f"{file}:sigmoid"]))


@pytest.mark.usefixtures("unchecked_shapes")
def test_train_eval_and_report_of_an_own_network(
    tmp_path: Path, run_here: Run, refused: Refused
) -> None:
    """Without a recipe; the page has a row of it, and needs neither the file nor torch."""
    path, out = write_own(tmp_path, "whole.py"), str(tmp_path / "runs" / "a")
    options = ["--data", "pairs", *OPTIONS, "--epochs", "1", "--blocks", "1", "--no-augment"]
    options += ["--block.norm-init", "1"]
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
    refused(["eval", out, "--code", str(path)], 2, "whole:build has changed since this run began")
