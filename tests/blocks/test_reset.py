"""`reset_parameters`: seeds, the meta device, and every order in which tools call it."""

import copy
import pickle
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

import scalednl
from scalednl.config import BlockConfig, StackConfig

MAKERS: dict[str, Callable[[], nn.Module]] = {
    "scaled": lambda: scalednl.NonLocal2d(64, bias=("theta", "phi", "g")),
    "softmax": lambda: scalednl.NonLocal1d(64, attention="softmax", softmax_scale="learned"),
    "gamma": lambda: scalednl.NonLocal3d(64, norm_init=0.5, init=0.1),
    "group norm": lambda: scalednl.NonLocal2d(64, norm_layer=partial(nn.GroupNorm, 8)),
    "network": lambda: scalednl.create_model("preresnet8", blocks=StackConfig(count=2)),
    "wide": lambda: scalednl.create_model(
        "wrn10_1", blocks=StackConfig(BlockConfig(attention="softmax"))
    ),
    "plain": lambda: scalednl.create_model("preresnet47", num_classes=7),
}
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def _from_meta(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.device("meta"):
        module = make()
    module.to_empty(device="cpu")
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.data.fill_(99)
    return module


def _top_down(module: nn.Module) -> None:
    for part in module.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()  # type: ignore[operator]


def _bottom_up(module: nn.Module) -> None:
    for part in reversed(list(module.modules())):
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()  # type: ignore[operator]


def _with_tensors_of_their_own(module: nn.Module) -> None:
    """As Lightning Fabric does: only modules with parameters or buffers outside their children."""
    for part in module.modules():
        if any(True for _ in (*part.parameters(recurse=False), *part.buffers(recurse=False))):
            part.reset_parameters()  # type: ignore[operator]


@makers
def test_a_seed_gives_the_weights_of_a_new_module(make: Callable[[], nn.Module]) -> None:
    """After one seed, reset_parameters and the constructor give equal tensors, also on meta."""
    torch.manual_seed(3)
    truth = make().state_dict()
    for module in (make(), _from_meta(make), pickle.loads(pickle.dumps(make()))):
        torch.manual_seed(3)
        module.reset_parameters()  # type: ignore[operator]
        assert module.state_dict().keys() == truth.keys()
        for name, value in module.state_dict().items():
            assert torch.equal(value, truth[name]), name


@makers
@pytest.mark.parametrize("how", [_top_down, _bottom_up, _with_tensors_of_their_own])
def test_every_order_of_resets_starts_alike(
    make: Callable[[], nn.Module], how: Callable[[nn.Module], None]
) -> None:
    """Parents before, after or without their children: constants are equal, draws have one size."""
    truth = make().state_dict()
    module = _from_meta(make)
    how(module)
    for name, value in module.state_dict().items():
        if value.numel() < 64 or truth[name].float().std() == 0:
            assert torch.equal(value, truth[name]), name
        else:
            size = truth[name].square().mean().sqrt().item()
            drawn = value.square().mean().sqrt().item()
            assert drawn == pytest.approx(size, rel=6 / value.numel() ** 0.5), name
            assert abs(value.mean().item()) < 6 * size / value.numel() ** 0.5


@pytest.mark.parametrize("how", [_top_down, _bottom_up, _with_tensors_of_their_own])
def test_a_block_from_the_meta_device_is_the_identity(how: Callable[[nn.Module], None]) -> None:
    """A new block returns its input, whoever started it."""
    block = _from_meta(lambda: scalednl.NonLocal2d(8))
    how(block)
    x = torch.randn(2, 8, 5, 5)
    assert torch.equal(block(x), x)


def test_a_copy_resets_itself() -> None:
    """The reset of a copied convolution changes the copy and not the original."""
    block = scalednl.NonLocal2d(8)
    twin = copy.deepcopy(block)
    before = block.theta.weight.clone()
    twin.theta.reset_parameters()
    assert torch.equal(block.theta.weight, before)
    assert not torch.equal(twin.theta.weight, before)
    assert type(twin.theta) is nn.Conv2d


def test_device_and_dtype() -> None:
    """Every tensor of a block is made on `device` in `dtype`; torch's skip_init works too."""
    options = {"attention": "softmax", "softmax_scale": "learned", "bias": True}
    block = scalednl.NonLocal2d(8, **options, device="meta", dtype=torch.float64)  # type: ignore[arg-type]
    assert all(p.is_meta and p.dtype == torch.float64 for p in block.parameters())
    assert all(b.is_meta for b in block.buffers())
    x = torch.randn(1, 8, 3, 3, dtype=torch.bfloat16)
    assert scalednl.NonLocal2d(8, dtype=torch.bfloat16)(x).dtype == torch.bfloat16
    group = scalednl.NonLocal1d(8, norm_layer=partial(nn.GroupNorm, 2), dtype=torch.float64)
    assert {p.dtype for p in group.parameters()} == {torch.float64}
    block = nn.utils.skip_init(scalednl.NonLocal2d, 8)
    assert not block.theta.weight.is_meta


def test_options_are_keywords() -> None:
    """Only `channels` may be given by position."""
    with pytest.raises(TypeError, match="positional"):
        scalednl.NonLocal2d(8, "softmax")  # type: ignore[call-arg]
