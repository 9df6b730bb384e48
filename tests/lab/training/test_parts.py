"""What a trainer is made of, prepared in one way for trainings and for their plans."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from scalednl.errors import CommandError, UsageError
from scalednl.lab.training.parts import prepare
from scalednl.lab.training.run import run
from scalednl.lab.training.setup import initial_model
from tests.lab.training.builders import SETTINGS, SMALL, small


def test_parts_are_those_of_the_experiment() -> None:
    """Its images, the network of its seed, and the precision that it asks for."""
    data, network, fabric = prepare(small(precision="bf16"), SETTINGS, None, pretrained=True)
    assert (len(data.train), len(data.test)) == (150, 40)
    expected = initial_model(SMALL, len(data.class_names)).state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in network.state_dict().items())
    assert fabric.strategy.precision.precision == "bf16-mixed"


def test_what_cannot_work_is_refused() -> None:
    """A batch that the images do not fill, and a precision that the device lacks."""
    with pytest.raises(UsageError, match="batch"):
        prepare(small(batch=1000), SETTINGS, None, pretrained=True)
    with pytest.raises(CommandError, match="fp16 training needs a GPU"):
        prepare(small(precision="fp16"), SETTINGS, None, pretrained=True)


def test_weights_are_loaded_if_asked_for(tmp_path: Path) -> None:
    """A resumed fine-tuning has its own weights already, and may have lost the others."""
    run(small(blocks=0, epochs=1), tmp_path / "first", SETTINGS, quiet=True)
    tuned = small(finetune=True, weights=str(tmp_path / "first"))
    fresh, loaded = (prepare(tuned, SETTINGS, None, pretrained=p).network for p in (False, True))
    same = [
        torch.equal(value, loaded.state_dict()[name]) for name, value in fresh.state_dict().items()
    ]
    assert any(same)
    assert not all(same)
    with pytest.raises(CommandError):
        prepare(replace(tuned, weights=str(tmp_path / "gone")), SETTINGS, None, pretrained=True)
