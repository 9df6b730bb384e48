"""Foreign blocks become ours with the same values and gradients, whatever they compute."""

import copy
import itertools
from collections.abc import Callable
from math import prod

import pytest
import torch
from torch import Tensor, nn

import scalednl
from scalednl.models.identify import SPACES as TRIAL_SPACES
from tests.models.foreign_blocks import (
    PAM,
    POOLS,
    Attention,
    Authors,
    Bat,
    Nonlocal,
    NONLocalBlock,
    Weigh,
    over,
    softmax,
)
from tests.support import assert_close, randomise

SPACES = {1: (10,), 2: (6, 8), 3: (2, 4, 6)}

CASES: dict[str, tuple[nn.Module, dict[str, object]]] = {
    "softmax": (NONLocalBlock(8, softmax()), {"attention": "softmax", "softmax_scale": 1.0}),
    "number": (NONLocalBlock(8, softmax(0.37)), {"attention": "softmax", "softmax_scale": 0.37}),
    "hot": (NONLocalBlock(8, softmax(5.0)), {"attention": "softmax", "softmax_scale": 5.0}),
    "mean": (NONLocalBlock(8, over(1)), {"attention": "mean"}),
    "root N": (NONLocalBlock(8, over(0.5)), {"attention": "scaled"}),
    "root N d": (NONLocalBlock(8, over(0.5, 4)), {"attention": "scaled"}),
    "root d": (NONLocalBlock(8, over(0, 4)), {"attention": "scaled", "scale": False}),
    "bare": (NONLocalBlock(8, over(0)), {"attention": "scaled", "scale": False}),
    "pooled": (NONLocalBlock(8, softmax(), pool=POOLS[1]), {"key_pool": "after"}),
    "1-D": (NONLocalBlock(8, over(1), dims=1, pool=POOLS[0]), {"key_pool": "after"}),
    "3-D": (NONLocalBlock(8, over(1), dims=3, pool=POOLS[2], norm=False), {"key_pool": "after"}),
    "pool of 3": (
        NONLocalBlock(8, softmax(), pool=nn.MaxPool2d(3)),
        {"key_pool": "after", "key_pool_size": 3},
    ),
    "pool of 4 x 1": (
        NONLocalBlock(8, over(0.5, 4), pool=nn.MaxPool2d((4, 1))),
        {"key_pool": "after", "key_pool_size": (4, 1), "attention": "scaled"},
    ),
    "pool of 4 in 1-D": (
        NONLocalBlock(8, over(1), dims=1, pool=nn.MaxPool1d(4)),
        {"key_pool": "after", "key_pool_size": 4, "attention": "mean"},
    ),
    "pool of time": (
        NONLocalBlock(8, over(1), dims=3, pool=nn.MaxPool3d(2)),
        {"key_pool": "after", "key_pool_size": (2, 2, 2), "attention": "mean"},
    ),
    "pool of space": (
        NONLocalBlock(8, softmax(), dims=3, pool=nn.MaxPool3d((1, 3, 3))),
        {"key_pool": "after", "key_pool_size": 3},
    ),
    "pool before": (
        Nonlocal(8, softmax(), nn.MaxPool3d((2, 4, 4))),
        {"key_pool": "before", "key_pool_size": (2, 4, 4)},
    ),
    "W_z": (NONLocalBlock(8, softmax(), out="W_z"), {"attention": "softmax"}),
    "out": (NONLocalBlock(8, softmax(), out="out", norm=False), {"attention": "softmax"}),
    "video": (
        Nonlocal(8, softmax(0.5), POOLS[2]),
        {"key_pool": "before", "softmax_scale": "embed"},
    ),
    "video, mean": (Nonlocal(8, over(1), None), {"key_pool": None, "attention": "mean"}),
    "3 heads": (Authors(24, 3, over(0.5, 8)), {"heads": 3, "attention": "scaled", "scale": True}),
    "12 heads": (Authors(24, 12, softmax()), {"heads": 12, "softmax_scale": 1.0}),
    "magnitude": (Authors(8, 2, over(0.5, 4), "magnitude"), {"view": "magnitude", "heads": 2}),
    "direction": (Authors(8, 2, over(0.5, 4), "direction"), {"view": "direction", "heads": 2}),
    "cosine": (
        Authors(8, 4, softmax(20.0), "direction"),
        {"view": "direction", "softmax_scale": 20.0},
    ),
    "t, p, g, z, bn": (Bat(16), {"softmax_scale": "channels"}),
    "PAM": (PAM(8), {"attention": "softmax", "softmax_scale": 1.0, "embed_channels": 8}),
    "BigGAN": (Attention(16), {"key_pool": "after", "embed_channels": 8, "norm": None}),
}


def results(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Output and gradient for x, in training; a fixed upstream gradient."""
    x = x.clone().requires_grad_()
    z = module(x)
    upstream = torch.linspace(-1, 1, z.numel(), dtype=z.dtype).view_as(z)
    return z.detach(), torch.autograd.grad(z, x, upstream, retain_graph=True)[0]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("training", [False, True])
def test_the_same_function(name: str, training: bool) -> None:
    """Values and gradients agree to 1e-10, and the options are the ones that say what it is."""
    block, options = CASES[name]
    block = randomise(copy.deepcopy(block)).double().train(training)
    conv = next(m for m in block.modules() if isinstance(m, (nn.Conv1d, nn.Conv2d, nn.Conv3d)))
    space = SPACES[len(conv.kernel_size)]
    x = torch.randn(3, conv.in_channels, *space, dtype=torch.float64)
    truth = results(block, x)
    network, report = scalednl.convert(nn.Sequential(copy.deepcopy(block)), attention="same")
    ours = network[0]  # type: ignore[index]
    for option, value in options.items():
        found = getattr(ours, option)
        assert found == (pytest.approx(value) if isinstance(value, float) else value), option
    for value, expected in zip(results(network, x), truth, strict=True):
        assert_close(value, expected, 1e-10)
    assert report.conversions[0].difference < 1e-10
    assert not report.unconverted


NORMALISERS: dict[str, Callable[[int], Weigh]] = {
    "softmax": lambda _: softmax(),
    "softmax / sqrt(d)": lambda d: softmax(d**-0.5),
    "1/N": lambda _: over(1),
    "1/sqrt(N d)": lambda d: over(0.5, d),
    "1/sqrt(N)": lambda _: over(0.5),
}
WIDTHS = {
    dims: (1, once_mistaken, prod(TRIAL_SPACES[dims][0]), prod(TRIAL_SPACES[dims][1]), 53)
    for dims, once_mistaken in ((1, 6), (2, 24), (3, 144))
}
"""Also those that equal the pixels of a trial map, now or when there was one map alone"""


@pytest.mark.parametrize(("dims", "kind"), list(itertools.product((1, 2, 3), NORMALISERS)))
def test_no_width_is_mistaken(dims: int, kind: str) -> None:
    """The normaliser is found at every width, also where 1/N and 1/sqrt(N d) are equal."""
    for width in WIDTHS[dims]:
        block = NONLocalBlock(2, NORMALISERS[kind](width), inner=width, dims=dims, norm=False)
        block = randomise(block).double()
        x = torch.randn(1, 2, *SPACES[dims], dtype=torch.float64)
        converted, _ = scalednl.convert(copy.deepcopy(block), attention="same")
        assert_close(converted(x), block(x), 1e-10, f"width {width}")


def test_scaled_keeps_the_weights() -> None:
    """attention="scaled" gives a linear block with the old parameters, and asks for fine-tuning."""
    block = NONLocalBlock(8, softmax())
    converted, report = scalednl.convert(block)
    assert isinstance(converted, scalednl.NonLocal2d)
    assert converted.attention == "scaled"
    assert converted.theta.weight is block.theta.weight
    assert "softmax -> scaled (weights kept: fine-tune it)" in str(report)


def test_freshly_initialised_blocks_are_recognised_too() -> None:
    """A block whose output is still zero is recognised; its weights and the generator are kept."""
    block = Authors(8, 4, over(0.5, 2))
    nn.init.zeros_(block.z_bn.weight)
    before = copy.deepcopy(block.state_dict())
    state = torch.get_rng_state()
    converted, report = scalednl.convert(block)
    assert report.conversions[0].was == "scaled"
    assert isinstance(converted, scalednl.NonLocal2d)
    assert converted.heads == 4
    assert torch.equal(state, torch.get_rng_state())
    for key, value in block.state_dict().items():
        assert torch.equal(value, before[key])


def test_added_zero_channels_stay_zero() -> None:
    """Padded channels of theta and phi get no gradient, so training never uses them."""
    block = randomise(PAM(8)).double()
    converted, report = scalednl.convert(block, attention="same")
    assert isinstance(converted, scalednl.NonLocal2d)
    assert "padded with zeros from 2 to 8" in str(report)
    assert "gamma" in str(report)
    converted(torch.randn(2, 8, 5, 4, dtype=torch.float64)).square().sum().backward()
    for conv in (converted.theta, converted.phi):
        assert conv.weight.grad is not None
        assert not conv.weight[2:].any()
        assert not conv.weight.grad[2:].any()
        assert conv.weight.grad[:2].any()
