"""The files of a run directory."""

import fcntl
import json
import threading
from pathlib import Path

import numpy as np
import pytest

from scalednl.errors import CommandError
from scalednl.lab.records.run import BusyError, Epoch, RunFolder, RunSetup, finished_epochs
from tests.lab.training.builders import SMALL, small


def test_many_classes_take_two_bytes(tmp_path: Path) -> None:
    """Beyond 256 classes a prediction still is the class; a damaged file is a sentence."""
    folder = RunFolder(tmp_path)
    assert folder.read_predictions() is None
    folder.write_predictions(np.array([0, 255, 999]), 1000)
    found = folder.read_predictions()
    assert found is not None
    assert found.tolist() == [0, 255, 999]
    assert found.dtype == np.uint16
    (tmp_path / "predictions.npy").write_bytes(b"nonsense")
    with pytest.raises(CommandError, match=r"predictions\.npy is damaged"):
        folder.read_predictions()


def test_config_and_epochs_are_read_as_written(tmp_path: Path) -> None:
    """Epochs are replaced as a whole, so that each is there once; without files there are none."""
    folder = RunFolder(tmp_path)
    assert (folder.exists(), folder.read_epochs(), folder.read_result()) == (False, [], None)
    setup = RunSetup(settings={"threads": 2}, class_names=("a", "b"), train_images=5)
    folder.write_config(SMALL, setup)
    assert folder.exists()
    assert folder.read_config() == (SMALL, setup)
    epochs = [Epoch(epoch=n, test_error_pct=50.0 - n, train_loss=0.1 + n) for n in range(3)]
    for count in (3, 2, 3):
        folder.write_epochs(epochs[:count])
        assert folder.read_epochs() == epochs[:count]
        assert finished_epochs(tmp_path) == count
    assert finished_epochs(tmp_path / "nowhere") == 0


def test_a_number_that_is_none_is_not_written(tmp_path: Path) -> None:
    """NaN is no JSON: it is an error where it is written, and the old file stays."""
    folder = RunFolder(tmp_path)
    folder.write_epochs([Epoch(epoch=0)])
    with pytest.raises(ValueError, match="not JSON compliant"):
        folder.write_epochs([Epoch(epoch=0, train_loss=float("nan"))])
    assert folder.read_epochs() == [Epoch(epoch=0)]
    assert [path.name for path in tmp_path.iterdir()] == ["epochs.jsonl"]


def test_a_config_names_what_is_wrong_with_its_experiment(tmp_path: Path) -> None:
    """An option of another version, and a folder without a run, are sentences with the path."""
    folder = RunFolder(tmp_path)
    with pytest.raises(CommandError, match=r"config\.json does not exist"):
        folder.read_config()
    folder.write_config(small(lr=0.5), RunSetup())
    values = json.loads((tmp_path / "config.json").read_text())
    values["experiment"]["colour"] = "red"
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(CommandError, match=r"config\.json is damaged: experiment: colour is not"):
        folder.read_config()


def test_the_precision_of_an_older_config_is_that_of_its_run(tmp_path: Path) -> None:
    """Files that name it under `run` alone are read as such; two that differ are damage."""
    folder = RunFolder(tmp_path)
    folder.write_config(small(precision="bf16"), RunSetup(precision="bf16-mixed"))
    path = tmp_path / "config.json"
    values = json.loads(path.read_text())
    del values["experiment"]["precision"]
    path.write_text(json.dumps(values))
    assert folder.read_config()[0].precision == "bf16"
    del values["run"]["precision"]
    path.write_text(json.dumps(values))
    assert folder.read_config()[0] == SMALL
    values["run"]["precision"] = "64-true"
    path.write_text(json.dumps(values))
    with pytest.raises(CommandError, match=r"damaged: experiment: .*64-true"):
        folder.read_config()
    values["experiment"]["precision"] = "bf16"
    path.write_text(json.dumps(values))
    with pytest.raises(CommandError, match="precision is bf16, but the run's is 64-true"):
        folder.read_config()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """While one holds the lock another is refused; asking about it leaves no file."""
    one, two = RunFolder(tmp_path), RunFolder(tmp_path)
    assert not one.is_locked()
    assert list(tmp_path.iterdir()) == []
    with one.locked():
        assert two.is_locked()
        with pytest.raises(BusyError, match="is being trained by another process"), two.locked():
            pass
    assert not two.is_locked()


def test_many_may_ask_whether_it_is_locked(tmp_path: Path) -> None:
    """Those who ask do not take each other for a training, nor keep one out."""
    folder = RunFolder(tmp_path)
    (tmp_path / ".lock").touch()
    with (tmp_path / ".lock").open("rb") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not folder.is_locked()
        release = threading.Timer(0.1, fcntl.flock, (asking, fcntl.LOCK_UN))
        release.start()
        with folder.locked():
            assert RunFolder(tmp_path).is_locked()
        release.join()
