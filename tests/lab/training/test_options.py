"""Options that no recipe sets: label smoothing, compilation; and those of older files."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from scalednl.errors import UsageError
from scalednl.lab.training.devices import make_fabric
from scalednl.lab.training.loop import Trainer
from scalednl.lab.training.run import run
from scalednl.lab.training.setup import experiment_data, initial_model
from scalednl.models.weights import load_model
from tests.lab.training.builders import SETTINGS, small
from tests.support import assert_close


def test_label_smoothing_softens_the_target() -> None:
    """The first step's loss is that of cross entropy with the same smoothing."""
    experiment = small(label_smoothing=0.2)
    data, model = experiment_data(experiment, None), initial_model(experiment, 4)
    trainer = Trainer(experiment, data, model, make_fabric(SETTINGS))
    batch = next(trainer.batches.epoch(0))
    trainer.network.train()
    expected = torch.nn.functional.cross_entropy(
        initial_model(experiment, 4).train()(batch.images), batch.labels, label_smoothing=0.2
    )
    assert_close(trainer.train_step(batch), expected.detach(), 1e-4)
    with pytest.raises(UsageError, match="--label-smoothing must be less than 1, got 1"):
        small(label_smoothing=1.0)


def test_compile_trains_what_torch_compile_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network is compiled once, before its first step, and only if asked for."""
    compiled: list[torch.nn.Module] = []

    def compile_nothing(model: torch.nn.Module) -> torch.nn.Module:
        compiled.append(model)
        return model

    monkeypatch.setattr(torch, "compile", compile_nothing)
    run(small(epochs=1), tmp_path / "plain", SETTINGS, quiet=True)
    assert not compiled
    run(small(epochs=1), tmp_path / "compiled", replace(SETTINGS, compile=True), quiet=True)
    (network,) = compiled
    stored = load_model(tmp_path / "compiled" / "weights.safetensors").state_dict()
    for name, value in network.state_dict().items():
        assert torch.equal(stored[name], value), name
