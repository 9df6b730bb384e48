"""Runs whose files are damaged, changed or gone."""

import hashlib
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.errors import CommandError, UsageError
from scalednl.lab.records.run import RunFolder
from scalednl.lab.records.runs import read_run
from scalednl.lab.training.evaluate import evaluate_source
from tests.lab.training.builders import SETTINGS, small
from tests.lab.training.runs import assert_same, interrupted, train


def test_one_damaged_checkpoint_costs_nothing(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one before is used; what is saved afterwards stays, though its step is smaller."""
    interrupted(tmp_path / "run", monkeypatch)
    (tmp_path / "run" / "checkpoints" / "00000007" / "state.pt").write_bytes(b"")
    (tmp_path / "run" / "checkpoints" / ".00000009.part").mkdir()
    with pytest.warns(UserWarning, match="00000007 is damaged"):
        interrupted(tmp_path / "run", monkeypatch, steps=1)
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["00000005", "00000006"]
    assert train(tmp_path / "run").status == "finished"
    assert_same(whole, tmp_path / "run")


def test_with_no_whole_checkpoint_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All damaged is an error that says what to do; the records stay."""
    interrupted(tmp_path / "run", monkeypatch)
    before = (tmp_path / "run" / "epochs.jsonl").read_bytes()
    for path in (tmp_path / "run" / "checkpoints").glob("*/state.pt"):
        path.write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="is damaged"),
        pytest.raises(CommandError, match=r"all checkpoints in .* are damaged: move"),
    ):
        train(tmp_path / "run")
    assert (tmp_path / "run" / "epochs.jsonl").read_bytes() == before


def test_what_does_not_belong_together_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another network's checkpoint, another precision, checkpoints without a configuration."""
    interrupted(tmp_path / "run", monkeypatch)
    with pytest.raises(UsageError, match=r"another experiment \(precision is fp32, not bf16\)"):
        train(tmp_path / "run", small(precision="bf16"))
    train(tmp_path / "other", small(model="preresnet14"))
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    shutil.copytree(tmp_path / "other" / "checkpoints", tmp_path / "run" / "checkpoints")
    with pytest.raises(CommandError, match=r"checkpoints/\d+ belongs to another config.json"):
        train(tmp_path / "run")
    (tmp_path / "run" / "config.json").unlink()
    with pytest.raises(CommandError, match=r"has checkpoints but no config\.json"):
        train(tmp_path / "run")


def test_a_damaged_result_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It blocks nothing: everything in it follows from the checkpoint."""
    interrupted(tmp_path / "run", monkeypatch)
    for content in ("{", '{"schema": 1}'):
        (tmp_path / "run" / "result.json").write_text(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert train(tmp_path / "run").status == "finished"


@pytest.mark.parametrize("ended", [True, False])
def test_a_changed_configuration_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """Neither a resumed nor a finished run takes another learning rate for its own."""
    path = tmp_path / "run"
    if ended:
        train(path)
    else:
        interrupted(path, monkeypatch)
    config = path / "config.json"
    original = config.read_text()
    config.write_text(original.replace('"lr": 0.1', '"lr": 0.2'))
    changed = RunFolder(path).read_config()[0]
    assert changed.lr == 0.2
    with pytest.raises(CommandError, match=r"config\.json was changed after the run was started"):
        train(path, changed)
    found = read_run(path)
    assert (found.state, found.note[:37]) == ("damaged", "config.json was changed after the run")
    config.write_text(original)
    assert train(path).status == "finished"


@pytest.mark.parametrize("recalibrate", [0, 2])
def test_weights_that_are_gone_or_changed_are_written_again(
    tmp_path: Path, recalibrate: int
) -> None:
    """From the last checkpoint, to the same bytes; until then changed ones are refused.

    Also where checkpoints within the epoch have the same step as the one after its test.
    """
    path, experiment = tmp_path / "run", small(recalibrate=recalibrate)
    settings = replace(SETTINGS, checkpoint_minutes=1e-9)
    result = train(path, experiment, settings).result
    weights = path / "weights.safetensors"
    original = weights.read_bytes()
    assert result.weights_sha256 == hashlib.sha256(original).hexdigest()
    weights.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
    with pytest.raises(CommandError, match="was changed after the training: `scalednl train"):
        evaluate_source(path)
    for _ in range(2):
        assert train(path, experiment).status == "finished"
        assert weights.read_bytes() == original
        weights.unlink()
    shutil.rmtree(path / "checkpoints")
    assert train(path, experiment).status == "finished"
    assert not weights.exists()
