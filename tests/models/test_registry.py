"""The paper's networks: sizes, places of blocks, arithmetic."""

import inspect
import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import scalednl
from scalednl import NonLocalConfig, create_model, list_models
from scalednl.models.residual import ResidualNetwork
from tests.support import assert_close

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
            assert _parameters(create_model(name, classes, NonLocalConfig())) == blocks


@pytest.mark.parametrize("name", SMALL)
def test_every_model_trains(name: str) -> None:
    """Every listed network with blocks takes a step: all its parameters receive gradient."""
    config = NonLocalConfig(blocks=2, norm_init=1.0)
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
        model = create_model(name, 10, NonLocalConfig())
        side = 56 if "tiny" in name else 32
        maps = model.features(torch.empty(1, 3, side, side))
    assert maps.shape[2:] == ((7, 7) if "tiny" in name else (8, 8))


def _calls(model: ResidualNetwork, size: int = 32) -> list[tuple[str, tuple[int, ...]]]:
    """Residual blocks and non-local blocks in the order in which they run, with their inputs."""
    calls: list[tuple[str, tuple[int, ...]]] = []
    for path, module in model.named_modules():
        if re.fullmatch(r"stages\.\d+\.\d+|stack\.\w+", path):
            module.register_forward_hook(
                lambda _m, inputs, _o, path=path: calls.append((path, tuple(inputs[0].shape)))
            )
    model(torch.randn(2, 3, size, size))
    return calls


@pytest.mark.parametrize(
    ("name", "stage", "before", "maps"),
    [
        ("preresnet56", 2, "stages.1.5", (2, 128, 16, 16)),
        ("preresnet32", 2, "stages.1.4", (2, 32, 16, 16)),
        ("preresnet20", 1, "stages.0.2", (2, 16, 32, 32)),
        ("preresnet20", 3, "stages.2.2", (2, 64, 8, 8)),
        ("preresnet8", 2, "stages.2.0", (2, 32, 16, 16)),
    ],
)
def test_where_the_stack_runs(name: str, stage: int, before: str, maps: tuple[int, ...]) -> None:
    """The stack runs directly before the last residual block of its stage, after a lone one."""
    model = create_model(name, 10, NonLocalConfig(blocks=3, stage=stage))
    calls = _calls(model)
    paths = [path for path, _ in calls]
    first = paths.index("stack.position")
    assert paths[first : first + 4] == ["stack.position", "stack.0", "stack.1", "stack.2"]
    assert paths[first + 4] == before
    assert calls[first][1] == maps


def test_no_blocks_is_the_plain_network() -> None:
    """blocks=0 is exactly the network without blocks; with position it is the control."""
    x = torch.randn(2, 3, 32, 32)
    models = {}
    for key, config, position in [
        ("plain", None, None),
        ("zero", NonLocalConfig(blocks=0), None),
        ("control", NonLocalConfig(blocks=0), True),
        ("blocks", NonLocalConfig(), False),
        ("softmax", NonLocalConfig(attention="softmax"), False),
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


def _bn(x: Tensor, s: dict[str, Tensor], name: str) -> Tensor:
    mean, var = s[f"{name}.running_mean"], s[f"{name}.running_var"]
    return F.batch_norm(x, mean, var, s[f"{name}.weight"], s[f"{name}.bias"])


def _by_hand(s: dict[str, Tensor], x: Tensor, depth: int, kind: str) -> Tensor:
    """The networks written out: kind is basic, bottleneck or wide."""
    x = F.conv2d(x, s["stem.weight"], padding=1)
    for stage in range(3):
        for number in range(depth):
            p = f"stages.{stage}.{number}"
            stride = 2 if stage and not number else 1
            a = F.relu(_bn(x, s, f"{p}.bn1"))
            if kind == "bottleneck":
                y = F.conv2d(a, s[f"{p}.conv1.weight"])
                y = F.conv2d(
                    F.relu(_bn(y, s, f"{p}.bn2")), s[f"{p}.conv2.weight"], stride=stride, padding=1
                )
                y = F.conv2d(F.relu(_bn(y, s, f"{p}.bn3")), s[f"{p}.conv3.weight"])
            else:
                y = F.conv2d(a, s[f"{p}.conv1.weight"], stride=stride, padding=1)
                y = F.conv2d(F.relu(_bn(y, s, f"{p}.bn2")), s[f"{p}.conv2.weight"], padding=1)
            if f"{p}.shortcut.weight" in s:
                x = F.conv2d(a if kind == "wide" else x, s[f"{p}.shortcut.weight"], stride=stride)
            x = x + y
    x = F.relu(_bn(x, s, "norm")).mean((2, 3))
    return F.linear(x, s["classifier.weight"], s["classifier.bias"])


@pytest.mark.parametrize(
    ("name", "depth", "kind"),
    [("preresnet14", 2, "basic"), ("preresnet47", 5, "bottleneck"), ("wrn16_2", 2, "wide")],
)
def test_the_arithmetic_is_the_papers(name: str, depth: int, kind: str) -> None:
    """Scores equal the network written out in functions, from the same weights."""
    model = create_model(name, 5).double().eval()
    for key, buffer in model.named_buffers():
        if key.endswith("running_var"):
            buffer.uniform_(0.5, 2)
        elif key.endswith("running_mean"):
            buffer.normal_()
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    assert_close(model(x), _by_hand(model.state_dict(), x, depth, kind), 1e-10)


def test_convolutions_start_from_he_fan_out() -> None:
    """Every backbone convolution and the classifier have the deviation of He, fan out."""
    model = create_model("preresnet56", 100)
    checked = 0
    for name, module in model.named_modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)) and module.weight.numel() > 4000:
            fan = module.weight[:, 0].numel()
            assert module.weight.std().item() == pytest.approx((2 / fan) ** 0.5, rel=0.1), name
            checked += 1
    assert checked > 20


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
        (lambda: create_model("preresnet20", 10, NonLocalConfig(stage=4)), "has stages 1 to 3"),
        (
            lambda: create_model("preresnet20", 10, NonLocalConfig(heads=5)),
            "heads=5 does not divide",
        ),
        (lambda: NonLocalConfig(blocks=-1), "blocks=-1 must be a whole number of at least 0"),
        (lambda: NonLocalConfig(attention="linear"), "attention='linear' is unknown"),  # type: ignore[arg-type]
        (lambda: NonLocalConfig(heads=3, embed_channels=8), "heads=3 does not divide"),
        (lambda: NonLocalConfig(order="gram", view="direction"), "order='gram' cannot be used"),
    ],
)
def test_bad_input(call: "object", sentence: str) -> None:
    """Unknown names list near ones, impossible depths the depths near them."""
    with pytest.raises(ValueError, match=sentence):
        call()  # type: ignore[operator]


def test_config_has_every_option_of_the_block() -> None:
    """NonLocalConfig has every option of NonLocal2d that a file can hold, but the channels."""
    options = set(inspect.signature(scalednl.NonLocal2d).parameters)
    not_in_files = {"channels", "norm_layer", "device", "dtype"}
    assert set(NonLocalConfig().block_options()) == options - not_in_files
