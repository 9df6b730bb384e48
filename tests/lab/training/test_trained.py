"""Opening what was trained."""

import shutil
from pathlib import Path

import pytest
import torch

from scalednl.errors import CommandError
from scalednl.lab.config import RecallConfig
from scalednl.lab.records.run import RunFolder, RunSetup
from scalednl.lab.training.run import run
from scalednl.lab.training.setup import experiment_data
from scalednl.lab.training.trained import (
    check_classes,
    source_experiment,
    source_model,
    weights_file,
)
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
