"""The residual networks: where the stack runs, their arithmetic, and how they start."""

import re
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scalednl import BlockConfig, StackConfig, create_model
from scalednl.lab.counting import multiply_adds
from scalednl.models.residual import BasicBlock, ResidualNetwork
from tests.support import assert_close


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
    model = create_model(name, 10, StackConfig(stage=stage))
    calls = _calls(model)
    paths = [path for path, _ in calls]
    first = paths.index("stack.position")
    assert paths[first : first + 4] == ["stack.position", "stack.0", "stack.1", "stack.2"]
    assert paths[first + 4] == before
    assert calls[first][1] == maps


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


def test_a_network_starts_anew_as_a_new_one_does() -> None:
    """After the same seed, `reset_parameters` gives every weight of a new network, blocks too."""
    torch.manual_seed(3)
    config = StackConfig(BlockConfig(attention="softmax"), count=1)
    new, used = create_model("preresnet8", 4, config), create_model("preresnet8", 4, config)
    with torch.no_grad():
        for parameter in used.parameters():
            parameter.add_(1)
    torch.manual_seed(3)
    used.reset_parameters()
    for name, value in new.state_dict().items():
        assert torch.equal(value, used.state_dict()[name]), name


@pytest.mark.parametrize("shared_activation", [False, True])
def test_dropout_is_between_the_two_convolutions(shared_activation: bool) -> None:
    """In training the second convolution gets torch's dropout of what it gets in evaluation."""
    block = BasicBlock(4, 6, 2, shared_activation, dropout=0.3).double()
    for norm in (block.bn1, block.bn2):
        norm.eval()
    x = torch.randn(2, 4, 8, 8, dtype=torch.float64)
    shortcut = block.shortcut
    assert shortcut is not None
    activated = F.relu(block.bn1(x))
    y = F.relu(block.bn2(block.conv1(activated)))
    beside = shortcut(activated if shared_activation else x)
    torch.manual_seed(3)
    found = block(x)
    torch.manual_seed(3)
    assert_close(found, beside + block.conv2(F.dropout(y, 0.3)), 1e-12)
    assert_close(block.eval()(x), beside + block.conv2(y), 1e-12)


def test_dropout_costs_no_multiply_adds() -> None:
    """A network multiplies as often with it as without, in training and in evaluation."""
    x = torch.randn(2, 3, 16, 16)
    for training in (True, False):
        counts = {
            multiply_adds(partial(create_model("wrn10_1", dropout=share).train(training), x))
            for share in (0.0, 0.3)
        }
        assert len(counts) == 1


def test_no_dropout_draws_no_random_number() -> None:
    """A training pass of the default network leaves the generator as it was."""
    model = create_model("wrn10_1")
    before = torch.get_rng_state()
    model(torch.ones(2, 3, 16, 16))
    assert torch.equal(torch.get_rng_state(), before)
