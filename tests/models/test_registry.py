"""The paper's networks: sizes, places of blocks, arithmetic."""

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import scalednl
from scalednl import BlockConfig, StackConfig, create_model, list_models
from scalednl.models.residual import BasicBlock
from scalednl.networks import network_shape

COUNTS = {
    ("preresnet32", 10): (466_714, 479_194),
    ("preresnet32", 100): (472_564, 485_044),
    ("preresnet56", 10): (590_426, 787_802),
    ("preresnet56", 100): (613_556, 810_932),
    ("preresnet110", 10): (1_146_842, 1_344_218),
    ("preresnet110", 100): (1_169_972, 1_367_348),
    ("wrn28_10", 10): (36_479_194, None),
    ("wrn28_10", 100): (36_536_884, 37_767_604),
    ("preresnet50_tiny", 200): (23_910_152, 27_058_952),
}
BASIC = [name for name in list_models() if network_shape(name).block != "bottleneck"]
SMALL = [name for name in list_models() if name not in ("wrn28_10", "preresnet101_tiny")]


def _parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("name", "classes"), COUNTS)
def test_parameter_counts(name: str, classes: int) -> None:
    """Parameters, without and with three blocks, are exactly the published networks'."""
    plain, blocks = COUNTS[name, classes]
    with torch.device("meta"):
        assert _parameters(create_model(name, classes)) == plain
        if blocks is not None:
            assert _parameters(create_model(name, classes, StackConfig())) == blocks


@pytest.mark.parametrize("name", SMALL)
def test_every_model_trains(name: str) -> None:
    """Every listed network with blocks takes a step: all its parameters receive gradient."""
    config = StackConfig(BlockConfig(norm_init=1.0), count=2)
    model = create_model(name, 7, config)
    size = 16 if "tiny" in name else 32
    scores = model(torch.randn(2, 3, size, size).to(memory_format=torch.channels_last))
    assert scores.shape == (2, 7)
    F.cross_entropy(scores, torch.tensor([1, 4])).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.any(), key


@pytest.mark.parametrize("name", ["wrn28_10", "preresnet101_tiny", "preresnet50_tiny"])
def test_large_models_have_the_right_maps(name: str) -> None:
    """Large networks give maps of the right size, without memory for them."""
    with torch.device("meta"):
        model = create_model(name, 10, StackConfig())
        side = 56 if "tiny" in name else 32
        maps = model.features(torch.empty(1, 3, side, side))
    assert maps.shape[2:] == ((7, 7) if "tiny" in name else (8, 8))


def test_no_blocks_is_the_plain_network() -> None:
    """count=0 is exactly the network without blocks; with position it is the control."""
    x = torch.randn(2, 3, 32, 32)
    models = {}
    for key, config, position in [
        ("plain", None, None),
        ("zero", StackConfig(count=0), None),
        ("control", StackConfig(count=0), True),
        ("blocks", StackConfig(), False),
        ("softmax", StackConfig(BlockConfig(attention="softmax")), False),
    ]:
        torch.manual_seed(0)
        models[key] = create_model("preresnet20", 10, config, position).eval()
    plain = models["plain"]
    assert list(models["zero"].state_dict()) == list(plain.state_dict())
    assert torch.equal(models["zero"](x), plain(x))
    assert list(models["control"].state_dict()) == list(plain.state_dict())
    assert not torch.equal(models["control"](x), plain(x))
    # The same seed gives the same backbone whatever the blocks, and new blocks are the identity.
    for key in ("blocks", "softmax"):
        assert torch.equal(models[key](x), plain(x))
        missing = models[key].load_state_dict(plain.state_dict(), strict=False)
        assert not missing.unexpected_keys
        assert all(name.startswith("stack.") for name in missing.missing_keys)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: create_model("preresnet57"), "near it are 56 and 65"),
        (lambda: create_model("preresnet43"), "near it are 38 and 47"),
        (lambda: create_model("preresnet2"), "near it are 8 and 14"),
        (lambda: create_model("wrn29_10"), r"6n \+ 4; near it are 28 and 34"),
        (lambda: create_model("wrn28_0"), "width=0 must be"),
        (
            lambda: create_model("presnet56"),
            "unknown model 'presnet56'; did you mean 'preresnet56'",
        ),
        (lambda: create_model("preresnet51_tiny"), "did you mean .*preresnet50_tiny"),
        (lambda: create_model("zzz"), "use one of preresnet8, "),
        (lambda: create_model("preresnet20", 0), "num_classes=0 must be"),
        (lambda: create_model("preresnet20", 10, StackConfig(stage=4)), "has stages 1 to 3"),
        (
            lambda: create_model("preresnet20", 10, StackConfig(BlockConfig(heads=5))),
            "heads=5 does not divide",
        ),
        (
            lambda: create_model("wrn16_4", dropout=1.0),
            "dropout=1.0 must be a number from 0",
        ),
        (
            lambda: create_model("preresnet56", dropout=0.3),
            "dropout=0.3 is for .* basic residual blocks, but preresnet56 has bottlenecks: use "
            "dropout=0.0, or a network such as preresnet32",
        ),
        (
            lambda: create_model("preresnet8", blocks=BlockConfig()),  # type: ignore[arg-type]
            "blocks must be a scalednl.StackConfig.* got a BlockConfig",
        ),
        (lambda: create_model(None), "the name of a network must be a text"),  # type: ignore[arg-type]
        (lambda: StackConfig(count=-1), "count=-1 must be a whole number of at least 0"),
        (lambda: StackConfig(stage=0), "stage=0 must be"),
        (lambda: BlockConfig(attention="linear"), "attention='linear' is unknown"),
        (lambda: BlockConfig(heads=3, embed_channels=8), "heads=3 does not divide"),
        (lambda: BlockConfig(order="gram", view="direction"), "order='gram' cannot be used"),
    ],
)
def test_bad_input(call: "object", sentence: str) -> None:
    """Unknown names list near ones, impossible depths the depths near them."""
    with pytest.raises(ValueError, match=sentence):
        call()  # type: ignore[operator]


def test_config_has_every_option_of_the_block() -> None:
    """BlockConfig has every option of NonLocal2d that a file can hold, but the channels."""
    options = set(inspect.signature(scalednl.NonLocal2d).parameters)
    not_in_files = {"channels", "norm_layer", "device", "dtype"}
    assert set(BlockConfig().as_options()) == options - not_in_files


@pytest.mark.parametrize("name", BASIC)
def test_dropout_is_in_every_basic_block(name: str) -> None:
    """Its share is that of every residual block; without it there is none, and the same weights."""
    with torch.device("meta"):
        model, plain = create_model(name, dropout=0.3), create_model(name)
    found = [m.dropout for m in model.modules() if isinstance(m, BasicBlock)]
    assert len(found) == sum(network_shape(name).depths)
    assert all(isinstance(drop, nn.Dropout) and drop.p == 0.3 for drop in found)
    assert not any(isinstance(m, nn.Dropout) for m in plain.modules())
    assert list(model.state_dict()) == list(plain.state_dict())
