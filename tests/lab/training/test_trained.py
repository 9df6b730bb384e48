"""Opening what was trained."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import scalednl
from scalednl.errors import CommandError, UsageError
from scalednl.lab.attention.source import open_source
from scalednl.lab.config import Experiment, FolderConfig, RecallConfig
from scalednl.lab.records.run import RunFolder, RunSetup
from scalednl.lab.training.evaluate import evaluate_source
from scalednl.lab.training.plan import plan_run
from scalednl.lab.training.run import run
from scalednl.lab.training.setup import experiment_data, initial_model
from scalednl.lab.training.trained import (
    check_classes,
    recorded_classes,
    source_experiment,
    source_model,
    weights_file,
)
from tests.lab.data.builders import image_folder
from tests.lab.training.builders import SETTINGS, SMALL, small


def test_a_run_without_final_weights_has_those_of_its_last_checkpoint(tmp_path: Path) -> None:
    """Final weights come first; with neither, and without a file, there is a sentence."""
    path = tmp_path / "run"
    run(small(epochs=1), path, SETTINGS, quiet=True)
    assert weights_file(path) == path / "weights.safetensors"
    final = source_model(path).state_dict()
    (path / "weights.safetensors").unlink()
    assert weights_file(path) == path / "checkpoints" / "00000005" / "weights.safetensors"
    for name, value in source_model(path).state_dict().items():
        assert torch.equal(value, final[name]), name
    shutil.rmtree(path / "checkpoints")
    with pytest.raises(CommandError, match="run contains no weights: is it a run directory"):
        weights_file(path)
    with pytest.raises(CommandError, match="nothing does not exist"):
        weights_file(tmp_path / "nothing")


def test_the_experiment_is_the_runs_or_that_of_the_named_data(tmp_path: Path) -> None:
    """A name that differs from the run's own makes an experiment on that data set."""
    RunFolder(tmp_path).write_config(SMALL, RunSetup())
    assert source_experiment(tmp_path, None) == SMALL
    assert source_experiment(tmp_path, "pairs") == SMALL
    other = source_experiment(tmp_path, "cifar10")
    assert other is not None
    assert other.data == "cifar10"
    assert source_experiment(tmp_path / "file", None) is None


def test_another_number_of_classes_is_refused(tmp_path: Path) -> None:
    """Both numbers are named."""
    run(small(epochs=1), tmp_path, SETTINGS, quiet=True)
    model, data = source_model(tmp_path), experiment_data(SMALL, None)
    check_classes(tmp_path, model, data)
    few = RecallConfig(train_images=4, test_images=4)
    recall = experiment_data(small(data="recall", recall=few), None)
    with pytest.raises(CommandError, match="was trained on 4 classes, but recall has 2"):
        check_classes(tmp_path, model, recall)


def _pets(path: Path) -> Path:
    return image_folder(path, {"train/cat": 20, "train/dog": 20, "val/cat": 4, "val/dog": 6})


def _on(folder: Path, **changes: object) -> Experiment:
    options = FolderConfig(side=16)
    return small(data=f"folder:{folder}", epochs=1, batch=16, folder=options, **changes)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with the folder `pets`, a run on it, and the data sets' root."""
    top = tmp_path_factory.mktemp("images")
    run(_on(_pets(top / "pets")), top / "run", SETTINGS, root=top / "root", quiet=True)
    return top


def test_a_run_on_a_folder_records_its_images(trained: Path) -> None:
    """Absolute path, fingerprint, normalisation, classes, and a prediction per test image."""
    experiment, setup = RunFolder(trained / "run").read_config()
    assert experiment.data == f"folder:{trained / 'pets'}"
    found = experiment.folder.found
    assert found is not None
    assert (found.train_images, found.test_images, found.classes) == (40, 10, 2)
    assert setup.class_names == ("cat", "dog") == recorded_classes(trained / "run")
    predictions = RunFolder(trained / "run").read_predictions()
    assert predictions is not None
    assert len(predictions) == 10
    result = json.loads((trained / "run" / "result.json").read_text())
    assert set(result["class_error_pct"]) == {"cat", "dog"}


def test_the_same_images_anywhere_are_the_same_run(trained: Path) -> None:
    """A moved folder: the finished run is found, and tests give the recorded error."""
    moved = trained / "elsewhere"
    shutil.copytree(trained / "pets", moved)
    root = trained / "root"
    outcome = run(_on(moved), trained / "run", SETTINGS, root=root, quiet=True)
    assert outcome.status == "finished"
    assert outcome.result.sessions == 1
    tested = evaluate_source(trained / "run", f"folder:{moved}", root=root)
    assert tested.test_error_pct == outcome.result.test_error_pct.last
    assert tested.class_error_pct.keys() == {"cat", "dog"}
    assert tested == replace(evaluate_source(trained / "run", root=root), data=f"folder:{moved}")


def test_a_moved_folder_says_which_option_finds_it(tmp_path: Path) -> None:
    """`eval`, `attention` and a resumed training; a finished run and photos need no images."""
    pets, root, path = _pets(tmp_path / "pets"), tmp_path / "root", tmp_path / "run"
    run(_on(pets), path, SETTINGS, root=root, quiet=True)
    recorded = RunFolder(path).read_config()[0]
    photo = shutil.copy(pets / "val" / "dog" / "0.jpg", tmp_path)
    pets.rename(tmp_path / "moved")
    said = rf"that {path} was trained on are no longer in {pets}: add --data folder:PATH"
    with pytest.raises(UsageError, match=said):
        evaluate_source(path, root=root)
    with pytest.raises(UsageError, match=said):
        open_source(path, images=2, test_images=2, root=root)
    assert run(recorded, path, SETTINGS, root=root, quiet=True).status == "finished"
    assert open_source(path, photos=[Path(photo)], root=root).pictures
    (path / "result.json").unlink()
    with pytest.raises(UsageError, match=said):
        run(recorded, path, SETTINGS, root=root, quiet=True)
    assert evaluate_source(path, f"folder:{tmp_path / 'moved'}", root=root).images == 10


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_files_of_other_dtypes_can_be_tested(dtype: torch.dtype, tmp_path: Path) -> None:
    """Images are float32, and so is the network that they go into."""
    path = tmp_path / "net.safetensors"
    network = initial_model(small(), 4).to(dtype)
    scalednl.save_model(network, path)
    found = evaluate_source(path, "pairs", 20)
    assert (found.images, 0 <= found.test_error_pct <= 100) == (20, True)


def test_test_images_alone_can_be_tested_on(trained: Path, tmp_path: Path) -> None:
    """A folder with val/ and no train/: the same error as beside training images; no training."""
    root = trained / "root"
    alone = tmp_path / "alone"
    shutil.copytree(trained / "pets" / "val", alone / "val")
    both = evaluate_source(trained / "run", root=root)
    found_alone = evaluate_source(trained / "run", f"folder:{alone}", root=root)
    assert found_alone == replace(both, data=f"folder:{alone}")
    assert open_source(trained / "run", images=3, data=f"folder:{alone}", root=root).pictures
    weights = trained / "run" / "weights.safetensors"
    found = source_experiment(weights, f"folder:{alone}", root)
    assert found is not None
    pixels = experiment_data(found, root).test.images / 255
    assert found.facts.mean == pytest.approx(pixels.mean((0, 1, 2)), abs=1e-5)
    with pytest.raises(CommandError, match="alone has test images but no train/: a folder of"):
        run(_on(alone), tmp_path / "run", SETTINGS, root=root, quiet=True)


def test_a_batch_is_at_most_all_training_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder with 40: a step takes all of them, the record says so, and the command resumes."""
    asked, root = replace(_on(_pets(tmp_path / "pets")), batch=128), tmp_path / "root"
    outcome = run(asked, tmp_path / "run", SETTINGS, root=root, quiet=True)
    assert outcome.status == "finished"
    said = "a step takes all 40 training images: --batch 128 is more than there are"
    assert said in capsys.readouterr().err
    assert RunFolder(tmp_path / "run").read_config()[0].batch == 40
    assert run(asked, tmp_path / "run", SETTINGS, root=root, quiet=True).result.sessions == 1
    planned = plan_run(replace(asked, limit=30), SETTINGS, root)
    assert (planned.experiment.batch, planned.steps) == (30, 1)


def test_other_images_are_seen_as_those_of_the_training(trained: Path, tmp_path: Path) -> None:
    """The side and normalisation of the run; their classes must have the same names."""
    other = image_folder(tmp_path / "other", {"cat": 4, "dog": 4}, size=(30, 30))
    experiment = source_experiment(trained / "run", f"folder:{other}", trained / "root")
    before = RunFolder(trained / "run").read_config()[0].folder.found
    assert experiment is not None
    assert before is not None
    data = experiment_data(experiment, trained / "root")
    assert data.train.images.shape == (6, 16, 16, 3)
    assert (data.mean, data.std) == (before.mean, before.std)
    (other / "cat").rename(other / "emu")
    with pytest.raises(CommandError, match=r"was trained on the class cat, where .* has dog"):
        evaluate_source(trained / "run", f"folder:{other}", root=trained / "root")


def test_changed_images_do_not_resume(tmp_path: Path) -> None:
    """Neither by the run's record, nor by the command that started it."""
    pets, root, path = _pets(tmp_path / "pets"), tmp_path / "root", tmp_path / "run"
    started = _on(pets)
    run(started, path, SETTINGS, root=root, quiet=True)
    (path / "result.json").unlink()
    (pets / "val" / "cat" / "0.jpg").unlink()
    recorded = RunFolder(path).read_config()[0]
    said = r"are not those that the training was started with \(40 \+ 10 images .* 40 \+ 9 images"
    with pytest.raises(CommandError, match=said):
        run(recorded, path, SETTINGS, root=root, quiet=True)
    with pytest.raises(CommandError, match=said):
        evaluate_source(path, root=root)
    with pytest.raises(UsageError, match=r"holds another experiment \(folder\.found\.content is"):
        run(started, path, SETTINGS, root=root, quiet=True)
    assert evaluate_source(path, f"folder:{pets}", root=root).images == 9


def test_a_network_trained_on_other_data_sees_a_folder_at_its_side(tmp_path: Path) -> None:
    """A run on CIFAR-10 with its normalisation; a weights file with the folder's own."""
    pets, root = _pets(tmp_path / "pets"), tmp_path / "root"
    RunFolder(tmp_path).write_config(Experiment(), RunSetup())
    found = source_experiment(tmp_path, f"folder:{pets}", root)
    assert found is not None
    assert (found.facts.input_side, found.facts.mean) == (32, Experiment().facts.mean)
    alone = source_experiment(tmp_path / "file", f"folder:{pets}", root)
    assert alone is not None
    assert alone.folder.found is not None
    assert alone.facts.mean == experiment_data(alone, root).mean


def test_attention_of_a_run_on_a_folder(trained: Path) -> None:
    """Its pictures have the names of the folder's classes; photos are normalised as it was."""
    source = open_source(trained / "run", images=5, test_images=5, root=trained / "root")
    assert [picture.label for picture in source.pictures][:2] == ["cat", "dog"]
    assert source.info.name.startswith("folder:pets-")
    photo = next((trained / "pets" / "val" / "dog").iterdir())
    shown = open_source(trained / "run", photos=[photo], root=trained / "nowhere")
    assert tuple(shown.class_names) == ("cat", "dog")
    assert shown.info.mean == source.info.mean != (0.0, 0.0, 0.0)
    limited = replace(_on(trained / "pets"), limit=20, test_limit=4)
    data = experiment_data(limited, trained / "root")
    assert (len(data.train), len(data.test)) == (20, 4)
