"""Networks of the authors' release under our names."""

import pytest
import torch
from torch import Tensor, nn

import scalednl
from scalednl.models.released_names import released_names
from tests.models.test_checkpoint import prefixed
from tests.support import randomise


def released(model: nn.Module, wide: bool) -> dict[str, Tensor]:
    """The state of one of our networks under the names of the authors' release."""
    top = {"stem": "conv1", "norm": "bn1" if wide else "bn", "classifier": "fc"}
    parts = {"theta": "theta_conv", "phi": "pi_conv", "g": "g_conv", "out": "z_conv"}
    state = {}
    for key, value in model.state_dict().items():
        first, _, rest = key.partition(".")
        if first == "stages":
            stage, block, inner = rest.split(".", 2)
            number = int(block) + (wide and (int(stage), int(block)) == (1, 1))
            inner = inner.replace("shortcut", "convShortcut" if wide else "downsample.0")
            place = f"block{int(stage) + 1}.layer" if wide else f"layer{int(stage) + 1}"
            state[f"{place}.{number}.{inner}"] = value
        elif first == "stack":
            block, part, leaf = rest.split(".")
            place = "block2.layer.1.head" if wide else "layer2.nonlocal.head"
            state[f"{place}.{block}.{parts.get(part, 'z_bn')}.{leaf}"] = value
        else:
            state[f"{top[first]}.{rest}"] = value
    state["block2.layer.1.pos_vec" if wide else "layer2.nonlocal.pos_vec"] = torch.randn(1, 4, 8, 8)
    return state


@pytest.mark.parametrize("name", ["preresnet20", "preresnet56", "preresnet18_tiny", "wrn16_1"])
def test_a_network_of_the_release(name: str) -> None:
    """The authors' names lead to ours; the position buffer is ignored; one call is enough."""
    blocks = scalednl.StackConfig(scalednl.BlockConfig(heads=2), count=2)
    source = randomise(scalednl.create_model(name, 5, blocks))
    model = scalednl.create_model(name, 5, blocks)
    state = prefixed(released(source, name.startswith("wrn")), "module.")
    paths = scalednl.load_foreign_state_dict(model, {"state_dict": state})
    assert paths == ("stack.0", "stack.1")
    for key, value in model.state_dict().items():
        assert torch.equal(value, source.state_dict()[key]), key


def test_residual_blocks_are_counted() -> None:
    """A number that the stack has in a wide network is passed over; unknown keys stay."""
    keys = [f"block2.layer.{number}.conv1.weight" for number in (0, 2, 10)]
    keys += ["block2.layer.1.head.3.theta_conv.weight", "block1.layer.0.convShortcut.weight"]
    found = released_names(dict.fromkeys([*keys, "bn1.bias", "ema"], torch.ones(1)))
    assert list(found) == [
        *(f"stages.1.{number}.conv1.weight" for number in range(3)),
        *("stack.3.theta_conv.weight", "stages.0.0.shortcut.weight", "norm.bias", "ema"),
    ]
