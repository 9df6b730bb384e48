"""Published networks, their records and their cards agree, and commands take their names."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scalednl.errors import CommandError, UsageError
from scalednl.files import sha256_of
from scalednl.lab.data import ImageData
from scalednl.lab.recipes import recipes
from scalednl.lab.records.run import RunFolder
from scalednl.lab.training import evaluate as evaluation
from scalednl.lab.training.run import run
from scalednl.lab.training.setup import experiment_data
from scalednl.lab.training.trained import source_experiment, source_model, weights_file
from scalednl.models import published
from scalednl.models.foreign_network import config_of
from scripts.model_card import card, published_run, recipe_rows
from scripts.weights import FILES, default_name, main, publish, weights_table
from tests.lab.training.builders import SETTINGS, small
from tests.support import call_scalednl

SHIPPED = published.FOLDER
NONE = pytest.param("", marks=pytest.mark.skip(reason="no network is published yet"), id="none")
CHECKED = 500
"""Test images on which a shipped network is tested again; its predictions are there for all"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a second."""
    path = tmp_path_factory.mktemp("runs") / "small"
    run(small(epochs=1), path, SETTINGS, quiet=True)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of the package's."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(published, "FOLDER", tmp_path / "weights")
    return tmp_path / "weights"


def check_records(folder: Path) -> None:
    """Weights, header, records and card are of one network."""
    found, experiment, result = published_run(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert result.weights_sha256 == sha256_of(folder / published.FILE)
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert text == card(folder, folder.name), "run `python -m scripts.weights`"
    assert f"{result.test_error_pct.last:.2f} %" in text
    assert str(result.weights_sha256) in text
    config = config_of(source_model(folder))
    assert config is not None
    assert config.name == experiment.model
    assert config.num_classes == len(found.setup.class_names)
    assert (config.blocks.count if config.blocks else 0) == experiment.blocks
    assert experiment.blocks == 0 or config.blocks == experiment.stack
    assert sum(p.numel() for p in source_model(folder).parameters()) == result.parameters


def check_error(folder: Path, data: ImageData) -> None:
    """The recorded error is that of the recorded predictions, which the weights give again."""
    _, experiment, result = published_run(folder)
    recorded = RunFolder(folder).read_predictions()
    assert recorded is not None
    wrong = np.mean(recorded != data.test.labels) * 100
    assert wrong == pytest.approx(result.test_error_pct.last)
    first = np.arange(min(CHECKED, len(data.test)))
    part = replace(data, test=data.test.take(first))
    batches = evaluation.test_batches(experiment, part)
    again = evaluation.evaluate(source_model(folder), batches, len(data.class_names))
    # Another processor may round a picture on the border to the other class.
    assert np.mean(again.predictions.numpy() != recorded[first]) <= 0.01


@pytest.mark.parametrize("name", published.list_weights() or [NONE])
def test_shipped_networks(name: str) -> None:
    """Every network in the package agrees with its records, its card, and the test images."""
    check_records(SHIPPED / name)
    found, experiment, _ = published_run(SHIPPED / name)
    assert found.origin.commit
    try:
        data = experiment_data(experiment, None)
    except CommandError:
        pytest.skip(f"needs {experiment.data}: scalednl data get {experiment.data}")
    check_error(SHIPPED / name, data)


def test_a_published_run(trained: Path, folder: Path) -> None:
    """Weights and records are copied as they are, a card is written; again, it is replaced."""
    assert weights_table() == "This version comes with none."
    place = publish(trained)
    assert place == folder / "pairs-preresnet8-scaled"
    for name in FILES[:-1]:
        assert (place / name).read_bytes() == (trained / name).read_bytes()
    check_records(place)
    check_error(place, experiment_data(small(), None))
    (place / "left.txt").touch()
    assert publish(trained, place.name) == place
    check_records(place)
    assert [path.name for path in folder.iterdir()] == [place.name]
    assert "| pairs-preresnet8-scaled | PreResNet-8 (scaled, 1 block, 4 heads) |" in weights_table()


def test_a_card_names_what_differs_from_the_recipe() -> None:
    """A card has the options of the command that repeats the run; its seed is no such option."""
    recipe = recipes()["cifar100-preresnet32-scaled-short"]
    assert [row[0] for row in recipe_rows(replace(recipe, seed=3))] == ["recipe"]
    block = replace(recipe.block, norm_init=0.0)
    rows = recipe_rows(replace(recipe, block=block, epochs=12, seed=3))
    assert rows[1:] == [
        ["options that differ from the recipe", "--block.norm-init 0.0 --epochs 12"]
    ]


def test_cards_follow_the_records(trained: Path, folder: Path) -> None:
    """The check fails where a card or the weights were changed; the script writes cards again."""
    place = publish(trained, "some-net")
    readme = place / "README.md"
    readme.write_text(readme.read_text().replace("seed 0", "seed 1"))
    with pytest.raises(AssertionError, match=r"scripts.weights"):
        check_records(place)
    main([])
    check_records(place)
    content = bytearray((place / published.FILE).read_bytes())
    content[-1] ^= 1
    (place / published.FILE).write_bytes(content)
    with pytest.raises(AssertionError):
        check_records(place)
    with pytest.raises(CommandError, match="was changed after the training: install scalednl"):
        weights_file(Path("some-net"))
    assert folder.is_dir()


def test_what_is_not_published(trained: Path, folder: Path, tmp_path: Path) -> None:
    """Unfinished runs, changed weights, private paths, lost records, odd names: a sentence each."""
    with pytest.raises(UsageError, match="nothing is not a run directory"):
        publish(tmp_path / "nothing")
    with pytest.raises(UsageError, match=r"'\.\./x' is no name for weights"):
        publish(trained, "../x")
    copy = tmp_path / "copy"
    for name, change, sentence in (
        ("predictions.npy", None, "copy has no predictions.npy"),
        (published.FILE, None, "weights.safetensors is missing or is not what"),
        (published.FILE, b"else", "weights.safetensors is missing or is not what"),
        ("result.json", {"status": "interrupted"}, "copy is interrupted; only a run"),
        ("result.json", {"recipe": "/home/me"}, "names a folder of this machine"),
    ):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(trained, copy)
        if change is None:
            (copy / name).unlink()
        elif isinstance(change, bytes):
            (copy / name).write_bytes(change)
        else:
            values = json.loads((copy / name).read_text())
            (copy / name).write_text(json.dumps({**values, **change}))
        with pytest.raises(UsageError, match=sentence):
            publish(copy)
    assert not folder.exists()


def test_commands_take_names(
    trained: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """eval and attention know a published network's data, and write nothing into the package."""
    place = publish(trained, "some-net")
    experiment = small(epochs=1)
    assert source_experiment(Path("some-net"), None) == experiment
    assert default_name(experiment) == "pairs-preresnet8-scaled"
    code, said = call_scalednl(monkeypatch, capsys, "eval", "some-net")
    error = published_run(place)[2].test_error_pct.last
    assert (code, f"some-net: test error {error:.2f} %" in said) == (0, True), said
    code, said = call_scalednl(monkeypatch, capsys, "attention", "some-net", "--images", "4")
    assert code == 0, said
    assert "initialised with the run's seed 0" in said
    assert Path("some-net-attention/attention.json").is_file()
    check_records(place)
    code, said = call_scalednl(monkeypatch, capsys, "eval", "some-nat")
    assert (code, said) == (
        1,
        "scalednl: some-nat does not exist, and scalednl has no weights of that name; did you mean "
        "'some-net'?\n",
    )
    code, said = call_scalednl(monkeypatch, capsys, "export", "some-nat", "x.onnx")
    assert (code, "did you mean 'some-net'" in said) == (1, True)
    assert folder.is_dir()
