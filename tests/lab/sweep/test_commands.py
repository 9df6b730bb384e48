"""Commands that train the runs of a plan."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.lab.cli.code_options import take_code
from scalednl.lab.cli.train import _parse
from scalednl.lab.config import Experiment
from scalednl.lab.config.experiment import Precision
from scalednl.lab.paper.artefacts import find_artefacts
from scalednl.lab.paper.scales import SCALES, scale_at
from scalednl.lab.sweep.commands import train_command
from scalednl.lab.sweep.plan import PlannedRun, make_sweep_plan
from scalednl.lab.sweep.reproduce import own_in_tables
from scalednl.lab.user_code import load_attention

OWN = ("--seed", "--out", "--weights")
"""Options whose values differ between the runs of a cell"""


def _words(run: PlannedRun, *shared: str) -> list[str]:
    program, train, *words = shlex.split(train_command(run, shared))
    assert (program, train) == ("scalednl", "train")
    return words


@pytest.mark.parametrize(
    ("names", "scale", "precision"),
    [*(("all evidence", scale, "fp32") for scale in SCALES), ("table1", "smoke", "bf16")],
)
def test_every_run_of_every_table_is_its_command(
    tmp_path: Path, names: str, scale: str, precision: Precision
) -> None:
    """What the command line reads from it is the experiment, cell and seed, and the folder.

    Commands that differ only in seed and folder are read once.
    """
    chosen = find_artefacts(names.split())
    plan = make_sweep_plan(chosen, scale_at(scale, precision), tmp_path / "my runs")
    read = set()
    for run in plan.runs:
        words = _words(run)
        pairs = zip(words, ["", *words], strict=False)
        kind = tuple(word for word, before in pairs if before not in OWN)
        if kind not in read:
            read.add(kind)
            parsed = _parse(words[0], words[1:])
            assert parsed.experiment == run.experiment
            assert (parsed.experiment.cell, parsed.out) == (run.cell, run.path)
    cells = {(run.cell, run.experiment.seed == 0) for run in plan.runs}
    assert len(read) == len(cells)


def test_it_has_what_differs_from_the_recipe_and_nothing_else() -> None:
    """The recipe's own run needs its folder alone; other options come in their order."""
    recipe = _parse("cifar10-preresnet56-scaled", []).experiment
    run = PlannedRun("a", recipe, Path("runs/a b"))
    assert train_command(run) == "scalednl train cifar10-preresnet56-scaled --out 'runs/a b'"
    block = replace(recipe.block, scale=False, init=0.5, bias=("theta", "g"))
    other = replace(recipe, block=block, position=False, milestones=(3, 4), limit=10, seed=7)
    run = replace(run, experiment=other)
    assert _words(run, "--threads", "1")[1:-2] == shlex.split(
        "--block.init 0.5 --block.bias theta g --block.no-scale --position False "
        "--milestones 3 4 --limit 10 --seed 7 --threads 1"
    )
    words = _words(run)
    assert _parse(words[0], words[1:]).experiment == other


def test_a_run_without_a_recipe_is_named_by_its_folder() -> None:
    """Its folder has all options."""
    run = PlannedRun("a", Experiment(recipe="my own"), Path("runs/a"))
    assert train_command(run) == "scalednl train runs/a"


def test_an_attention_of_a_users_own_comes_with_its_file(tmp_path: Path) -> None:
    """The command loads the file, and reads as the experiment that was planned."""
    file = tmp_path / "mine.py"
    file.write_text(
        "import scalednl\n@scalednl.register_attention\ndef product(theta, phi):\n"
        "    return theta @ phi.mT\n"
    )
    name = load_attention(file, "product")
    chosen = find_artefacts(["table1_importance"], own_in_tables([name]))
    plan = make_sweep_plan(chosen, SCALES["smoke"], tmp_path)
    run = next(run for run in plan.runs if run.experiment.code)
    assert f"--code {file}" in train_command(run)
    words = take_code(_words(run))
    assert _parse(words[0], words[1:]).experiment == run.experiment
