"""`scalednl train` as a person meets it."""

import json
import re
from functools import partial
from pathlib import Path

import pytest

from scalednl.files import sha256_of
from scalednl.lab.cli.train import _default_folder, parse_train
from scalednl.lab.recipes import recipes
from scalednl.lab.records.run import RunFolder, RunSetup
from tests.lab.cli.conftest import Refused, Run
from tests.lab.data.builders import image_folder, tiny_files, zipped
from tests.lab.training.builders import OPTIONS, SMALL
from tests.support import run_scalednl


@pytest.mark.usefixtures("unchecked_shapes")
def test_train_then_eval(tmp_path: Path, run_here: Run) -> None:
    """One line an epoch, a summary, the same error from eval, and no second training."""
    out = str(tmp_path / "run")
    command = ["train", "pairs-scaled", *OPTIONS, "--epochs", "2", "--out", out]
    run = run_scalednl(*command)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0].startswith("epoch 1/2  loss ")
    assert lines[1].startswith("epoch 2/2  loss ")
    assert lines[2].startswith(f"{out}: finished: test error")
    assert run.stderr == ""
    assert run_here(*command).stdout == f"{lines[2]}\n"
    assert run_here("train", out).stdout == f"{lines[2]}\n"
    found = json.loads(run_here("eval", out, "--json").stdout)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert found["test_error_pct"] == result["test_error_pct"]["last"]
    weights = f"{out}/weights.safetensors"
    shown = run_here("eval", weights, "--data", "pairs", "--classes").stdout
    assert "on 1,000 images of pairs" in shown
    assert "turned by 45 degrees" in shown


@pytest.mark.usefixtures("unchecked_shapes")
def test_two_stages_on_tiny_imagenet(
    tmp_path: Path, run_here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images from a file, a network without blocks, the same with blocks, and its test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCALEDNL_DATA", str(tmp_path / "data"))
    archive = zipped(tmp_path / "tiny.zip", tiny_files(classes=3, train=4))
    short = ["--model", "preresnet8", "--epochs", "1", "--batch", "4", "--device", "cpu"]
    pretrain = ["train", "tiny-preresnet50-plain-pretrain", *short, "--out", "runs/first"]
    finetune = ["train", "tiny-preresnet50-scaled-finetune", *short, "--out", "runs/second"]
    for command in (
        ["data", "get", "tiny-imagenet", "--from", str(archive)],
        pretrain,
        [*finetune, "--weights", "runs/first"],
        ["eval", "runs/second"],
    ):
        run = run_here(*command)
        assert run.returncode == 0, run.stderr
    assert "on 6 images of tiny-imagenet" in run.stdout
    experiment, setup = RunFolder(Path("runs/second")).read_config()
    assert (experiment.blocks, experiment.finetune) == (3, True)
    assert setup.weights_sha256 == sha256_of(RunFolder(Path("runs/first")).weights)
    assert (setup.train_images, len(setup.class_names)) == (12, 3)


@pytest.mark.usefixtures("unchecked_shapes")
def test_dry_run_prints_the_plan_and_writes_nothing(tmp_path: Path, run_here: Run) -> None:
    """Parameters, multiply-adds, memory, steps, speed and time."""
    out = tmp_path / "run"
    run = run_here("train", "pairs-scaled", *OPTIONS, "--dry-run", "--out", str(out))
    assert run.returncode == 0, run.stderr
    found = dict(line.split(maxsplit=1) for line in run.stdout.splitlines())
    assert found["parameters"] == "81,620"
    assert found["steps"] == "5 per epoch, 20 in total"
    for name in ("multiply-adds", "memory", "speed", "time"):
        assert any(letter.isdigit() for letter in found[name])
    assert not out.exists()


def test_list_and_help(run_here: Run) -> None:
    """--list names every recipe, --help shows examples, RECIPE --help its own values."""
    listed = run_here("train", "--list").stdout
    assert all(f"{name} " in listed for name in recipes())
    assert "scalednl train pairs-scaled" in run_here("train", "--help").stdout
    own = run_here("train", "cifar100-wrn28_10-scaled-wd5e4", "--help").stdout
    assert "0.0005" in own
    assert "--block.heads" in own


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["pairs-scale"], 2, "did you mean 'pairs-scaled'"),
        (["--epochs", "3"], 2, "name a recipe before --epochs"),
        (["--data", "pairs"], 2, "give both --data and --model: --model is missing"),
        (["--epochs=3"], 2, "--data and --model are missing"),
        (["--data", "pairs", "--model", "absent:build"], 2, "add --code absent.py"),
        (["--data", "pairs", "--model", "absent.py:build"], 2, "absent.py cannot be read"),
        (["pairs-scaled", "--at", "layer2"], 2, "use --stage with preresnet8"),
        (["pairs-scaled", "--epoch", "3"], 2, "--epochs"),
        (["pairs-scaled", "--epochs", "0"], 2, "--epochs must be at least 1, got 0"),
        (["pairs-scaled", "--block.heads", "5"], 2, "heads"),
        (["pairs-scaled", "--block.attention", "soft"], 2, "softmax"),
        (["pairs-scaled", "--threads", "100000"], 2, "on this machine, got 100000"),
        (
            ["pairs-scaled", "--checkpoint-minutes", "inf"],
            2,
            "--checkpoint-minutes must be more than 0",
        ),
        (["pairs-scaled", "--model", "preresnet99999999999"], 2, "must be at most 10000"),
        (
            ["pairs-scaled", "--devices", "2", "--batch", "1"],
            2,
            "--batch must be at least 2, the number of processes, got 1",
        ),
        (["x" * 300], 2, "no recipe is called"),
        (["runs/none"], 2, "runs/none is neither a recipe nor a run directory"),
        (["tests"], 2, "tests is neither a recipe nor a run directory"),
        (
            ["pairs-scaled", "--limit", "7000"],
            2,
            "--limit must be at most 5000, the training images, got 7000",
        ),
        (["pairs-scaled", "--milestones", "-5"], 2, "milestones"),
        (["pairs-scaled", "--milestones", "1", "2"], 2, "--milestones 1 2 has no effect"),
        (
            ["cifar10-preresnet56-scaled", "--schedule", "one-cycle", "--milestones", "81", "122"],
            2,
            "--milestones 81 122 has no effect",
        ),
        (
            ["pairs-scaled", "--batch", "7000"],
            2,
            "--batch must be at most 5000, the training images, got 7000",
        ),
        (["tiny-preresnet50-scaled-finetune"], 1, "scalednl data get tiny-imagenet"),
        (["cifar10-preresnet56-scaled"], 1, "scalednl data get cifar10"),
        (["pairs-scaled", "--device", "cuda"], 1, "--device cuda is not available"),
        (["pairs-scaled", "--weights", "x"], 2, "is for fine-tuning"),
        (["pairs-scaled", "--out", "/proc/nowhere/run"], 1, "cannot be written"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_mistakes_are_one_sentence(
    refused_at_once: Refused, arguments: list[str], code: int, said: str
) -> None:
    """Each names what was passed and what would work; nothing is written."""
    refused_at_once(["train", *arguments], code, said)


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        (["--data", "cifar10", "--model", "preresnet20"], "cifar10-preresnet20-scaled-seed0-"),
        (
            ["--data=cifar10", "--model=timm:resnet18", "--blocks", "0", "--seed", "3"],
            "cifar10-timm_resnet18-plain-seed3-",
        ),
        (["--model", "a:../b c", "--data", "cifar10"], "cifar10-b_c-scaled-seed0-"),
    ],
)
def test_data_and_network_are_enough(arguments: list[str], folder: str) -> None:
    """They start from a recipe of their own, and name the folder in letters that are safe."""
    command = parse_train(arguments)
    assert isinstance(command, partial)
    experiment = command.args[0].experiment
    assert (experiment.recipe, experiment.epochs, experiment.schedule) == (
        *("custom", 15, "one-cycle"),
    )
    assert experiment.block.norm_init == 0
    name = _default_folder(experiment).name
    assert name.startswith(folder)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", name)


def test_a_recipe_is_needed(refused: Refused) -> None:
    """Without any argument the usage is printed."""
    refused(["train"], 2, "usage: scalednl train RECIPE")


@pytest.mark.parametrize(("stored", "used"), [(1, 1), (100_000, None), (None, None)])
def test_a_run_of_a_larger_machine_resumes_by_its_name(
    tmp_path: Path, stored: int | None, used: int | None
) -> None:
    """Threads that this machine does not have become its default; --threads still counts."""
    RunFolder(tmp_path).write_config(SMALL, RunSetup(settings={"threads": stored}))
    for arguments, threads in (([], used), (["--threads", "1"], 1)):
        command = parse_train([str(tmp_path), *arguments])
        assert isinstance(command, partial)
        assert command.args[0].run.threads == threads


@pytest.mark.usefixtures("unchecked_shapes")
def test_numbers_and_names_are_both_understood(tmp_path: Path, run_here: Run) -> None:
    """--block.init takes a deviation, --block.softmax-scale a factor; the folder is named so."""
    out = str(tmp_path / "run")
    options = ["--block.init", "0.05", "--epochs", "1", "--precision", "bf16", "--out", out]
    run = run_here("train", "pairs-scaled", *OPTIONS, *options)
    assert run.returncode == 0, run.stderr
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["experiment"]["block"]["init"] == 0.05
    assert config["run"]["precision"] == "bf16-mixed"
    result = tmp_path / "run" / "result.json"
    result.write_text(result.read_text().replace('"finished"', '"interrupted"'))
    again = run_here("train", out)
    assert again.returncode == 0, again.stderr
    assert "started with" not in again.stdout
    assert f"{out}: finished" in again.stdout


@pytest.mark.usefixtures("unchecked_shapes")
def test_images_of_your_own(tmp_path: Path, run_here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is enough; the run is named after the folder, and resumes from anywhere."""
    image_folder(tmp_path / "My pets", {"cat": 40, "dog": 20})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCALEDNL_DATA", str(tmp_path / "root"))
    options = ["--epochs", "1", "--batch", "32", "--threads", "1", "--folder.side", "16"]
    options += ["--no-tensorboard"]
    command = ["train", "pairs-scaled", "--data", "folder:My pets", *options]
    first = run_here(*command)
    assert first.returncode == 0, first.stderr
    [path] = (tmp_path / "runs").iterdir()
    assert path.name.startswith("pairs-scaled-on-My-pets-seed0-")
    monkeypatch.chdir("/")
    last = first.stdout.splitlines()[-1].partition(": ")[2]
    assert run_here("train", str(path)).stdout == f"{path}: {last}\n"
    assert "on 6 images of folder:" in run_here("eval", str(path)).stdout
    (tmp_path / "My pets").rename(tmp_path / "pets")
    (path / "result.json").unlink()
    gone = run_here("train", str(path))
    assert gone.returncode == 2
    assert f"are no longer in {tmp_path}/My pets: add --data folder:PATH" in gone.stderr
    moved = run_here("train", str(path), "--data", f"folder:{tmp_path}/pets")
    assert moved.returncode == 0, moved.stderr
    assert last.partition(",")[0] in moved.stdout


def test_options_of_a_folder_in_the_help(run_here: Run) -> None:
    """Those that a person chooses, without what is found in the images."""
    shown = run_here("train", "pairs-scaled", "--help").stdout
    assert "--folder.side" in shown
    assert "found" not in shown.partition("--folder.side")[2].partition("--recalibrate")[0]
