"""The trainer, without a run directory."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from scalednl.errors import CommandError
from scalednl.lab.training.checkpoint import Checkpoint
from scalednl.lab.training.devices import make_fabric
from scalednl.lab.training.loop import Trainer
from scalednl.lab.training.run import run
from scalednl.lab.training.setup import experiment_data, initial_model
from scalednl.models.weights import load_model
from tests.lab.training.builders import SETTINGS, SMALL, small
from tests.support import assert_close


def _trainer() -> Trainer:
    data = experiment_data(SMALL, None)
    return Trainer(SMALL, data, initial_model(SMALL, 4), make_fabric(SETTINGS))


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("optimizer", None, "contains no state of the optimizer"),
        ("optimizer", {"state": {}, "param_groups": []}, "belongs to another network"),
        ("rng", torch.zeros(3, dtype=torch.uint8), "cannot be resumed from: .*RNG state"),
        ("progress", {"epoch": "two"}, r"cannot be resumed from: .* at `\$\.epoch`"),
        ("progress", [1], "cannot be resumed from: Expected `object`"),
        ("progress", {"step": 10**6}, "cannot be resumed from: it has no epoch 0 with a step 10"),
        ("progress", {"epoch": 3}, "cannot be resumed from: it has no epoch 3 with a step 0"),
        ("progress", {"epoch": -1}, "cannot be resumed from: it has no epoch -1 with a step 0"),
        ("progress", {"global_step": 9}, "cannot be resumed from: step 9 is not that of epoch 0"),
        ("progress", {"step": 3, "global_step": 3}, "cannot be resumed from: step 3 is not that"),
        ("progress", {"step": 5, "sessions": 0}, "cannot be resumed from: step 0 is not that"),
    ],
)
def test_a_checkpoint_with_wrong_contents_is_a_sentence(
    part: str, value: object, said: str
) -> None:
    """A state that no run has written, though its checksums are right: the error names it."""
    trainer = _trainer()
    state = {**trainer.checkpoint_state(), part: value}
    checkpoint = Checkpoint(Path("run/00000009"), trainer.network.state_dict(), state)
    with pytest.raises(CommandError, match=f"^run/00000009 {said}"):
        trainer.restore(checkpoint)


def test_momentum_of_another_shape_is_a_sentence() -> None:
    """torch takes it when it is loaded, and would fail at the next step."""
    trainer = _trainer()
    trainer.train_step(next(iter(trainer.batches.epoch(0))))
    state = trainer.checkpoint_state()
    state["optimizer"]["state"][0]["momentum_buffer"] = torch.zeros(3)
    state["progress"] = {"step": 1, "global_step": 1}
    checkpoint = Checkpoint(Path("run/00000001"), trainer.network.state_dict(), state)
    with pytest.raises(CommandError, match="its momentum belongs to another network"):
        trainer.restore(checkpoint)


def test_a_checkpoint_without_a_part_names_it() -> None:
    """The state of an older or foreign program may lack a name."""
    trainer = _trainer()
    state = trainer.checkpoint_state()
    del state["progress"]
    checkpoint = Checkpoint(Path("run/00000009"), trainer.network.state_dict(), state)
    with pytest.raises(CommandError, match="cannot be resumed from: 'progress' is missing"):
        trainer.restore(checkpoint)


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
