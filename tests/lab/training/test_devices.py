"""Where a run computes."""

from dataclasses import replace

import pytest
import torch

from scalednl.errors import CommandError, UsageError
from scalednl.lab.training.devices import is_first_process, make_fabric
from tests.lab.training.builders import SETTINGS


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher of these tests is none of a training's."""
    for name in ("TORCHELASTIC_RUN_ID", "RANK", "LOCAL_RANK", "NODE_RANK", "LT_CLI_USED"):
        monkeypatch.delenv(name, raising=False)


def test_precision_is_fabrics() -> None:
    """bf16 is mixed: weights stay in float32, products are in bf16; fp16 needs a GPU."""
    fabric = make_fabric(SETTINGS, "bf16")
    layer = fabric.setup_module(torch.nn.Linear(4, 4))
    with fabric.autocast():
        assert layer.weight.dtype == torch.float32
        assert torch.nn.functional.linear(torch.ones(1, 4), layer.weight).dtype == torch.bfloat16
    with pytest.raises(CommandError, match="fp16 training needs a GPU: use --precision bf16"):
        make_fabric(SETTINGS, "fp16")


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence lists what there is; more GPUs than there are are counted."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(CommandError, match="--device cuda is not available: this machine has cpu"):
        make_fabric(replace(SETTINGS, device="cuda"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UsageError, match="--devices must be at most 2, the GPUs of this machine"):
        make_fabric(replace(SETTINGS, device="cuda", devices=3))


def test_the_first_process_is_known_before_they_are_connected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One rank that is not 0, of whichever kind, is another process."""
    assert is_first_process()
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            assert not is_first_process()
