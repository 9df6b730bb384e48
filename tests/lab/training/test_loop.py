"""The trainer, without a run directory."""

from pathlib import Path

import pytest
import torch

from scalednl.errors import CommandError
from scalednl.lab.training.checkpoint import Checkpoint
from scalednl.lab.training.devices import make_fabric
from scalednl.lab.training.loop import Trainer
from scalednl.lab.training.setup import experiment_data, initial_model
from tests.lab.training.builders import SETTINGS, SMALL


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


def test_a_checkpoint_without_a_part_names_it() -> None:
    """The state of an older or foreign program may lack a name."""
    trainer = _trainer()
    state = trainer.checkpoint_state()
    del state["progress"]
    checkpoint = Checkpoint(Path("run/00000009"), trainer.network.state_dict(), state)
    with pytest.raises(CommandError, match="cannot be resumed from: 'progress' is missing"):
        trainer.restore(checkpoint)
