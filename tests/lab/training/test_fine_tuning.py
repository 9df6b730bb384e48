"""Fine-tuning: what is taken over from a trained network, and what is not."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from scalednl.errors import CommandError, UsageError
from scalednl.lab.training.setup import initial_model
from tests.lab.training.builders import small
from tests.lab.training.runs import interrupt_after, train, weights_of


def test_fine_tuning_begins_from_the_trained_backbone(tmp_path: Path) -> None:
    """Backbone taken over, new blocks at their start, a fresh optimizer; other networks refused."""
    plain = small(blocks=0, epochs=1)
    train(tmp_path / "pretrain", plain)
    tuned = small(finetune=True, weights=str(tmp_path / "pretrain"), epochs=1)
    train(tmp_path / "tuned", tuned)
    start = load_file(tmp_path / "tuned" / "checkpoints" / "00000000" / "weights.safetensors")
    trained, new = weights_of(tmp_path / "pretrain"), initial_model(tuned, 4).state_dict()
    for name, value in start.items():
        assert torch.equal(value, new[name] if name.startswith("stack.") else trained[name]), name
    config = json.loads((tmp_path / "tuned" / "config.json").read_text())
    assert len(config["run"]["weights_sha256"]) == 64
    with pytest.raises(
        CommandError, match=r"preresnet8 with 4 .* trains preresnet14 .*; try --model preresnet8$"
    ):
        train(tmp_path / "other", replace(tuned, model="preresnet14"))
    assert not (tmp_path / "other").exists()
    with pytest.raises(UsageError, match="starts from a trained network: add --weights RUN"):
        train(tmp_path / "other", replace(tuned, weights=None))


def test_going_on_needs_the_pretrained_weights_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted fine-tuning resumes although the first run is gone."""
    train(tmp_path / "pretrain", small(blocks=0, epochs=1))
    tuned = small(finetune=True, weights=str(tmp_path / "pretrain"), epochs=1)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2, signal.SIGTERM)
        assert train(tmp_path / "tuned", tuned).signal == signal.SIGTERM
    (tmp_path / "pretrain").rename(tmp_path / "gone")
    assert train(tmp_path / "tuned", tuned).status == "finished"


def test_fine_tuning_an_unfinished_run_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint that it starts from is named."""
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2, signal.SIGTERM)
        train(tmp_path / "pretrain", small(blocks=0, epochs=1))
    tuned = small(finetune=True, weights=str(tmp_path / "pretrain"), epochs=1)
    with pytest.warns(
        UserWarning, match=r"pretrain has no final weights: .* its checkpoint 00000002"
    ):
        train(tmp_path / "tuned", tuned)


def test_fine_tuning_refuses_trained_blocks(tmp_path: Path) -> None:
    """New blocks start from their own initialisation, never from somebody else's."""
    train(tmp_path / "pretrain", small(epochs=1))
    tuned = small(finetune=True, weights=str(tmp_path / "pretrain"), epochs=1)
    with pytest.raises(CommandError, match="blocks of its own"):
        train(tmp_path / "tuned", tuned)
