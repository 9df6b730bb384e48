"""Implementations that no package index has, written from their published keys and arithmetic."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import scalednl
from tests.support import assert_close, randomise


class NONLocalBlock2D(nn.Module):
    """Keys g, theta, phi, W; softmax without a scale, or the dot product over N."""

    def __init__(self, channels: int, dot: bool, pooled: bool, norm: bool) -> None:
        super().__init__()
        inner, self.dot = channels // 2, dot
        self.g: nn.Module = nn.Conv2d(channels, inner, 1)
        self.theta = nn.Conv2d(channels, inner, 1)
        self.phi: nn.Module = nn.Conv2d(channels, inner, 1)
        out = nn.Conv2d(inner, channels, 1)
        self.W = nn.Sequential(out, nn.BatchNorm2d(channels)) if norm else out
        if pooled:
            self.g = nn.Sequential(self.g, nn.MaxPool2d(2))
            self.phi = nn.Sequential(self.phi, nn.MaxPool2d(2))

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        theta, phi, g = (m(x).flatten(2) for m in (self.theta, self.phi, self.g))
        f = theta.mT @ phi
        a = f / f.shape[-1] if self.dot else f.softmax(-1)
        return self.W((g @ a.mT).unflatten(2, x.shape[2:])) + x


class Nonlocal(nn.Module):
    """Keys conv_theta, conv_phi, conv_g, conv_out, bn over video; keys pooled before phi and g."""

    def __init__(self, channels: int, dot: bool, pooled: bool) -> None:
        super().__init__()
        inner, self.dot, self.pooled = channels // 2, dot, pooled
        self.conv_theta = nn.Conv3d(channels, inner, 1)
        self.conv_phi = nn.Conv3d(channels, inner, 1)
        self.conv_g = nn.Conv3d(channels, inner, 1)
        self.conv_out = nn.Conv3d(inner, channels, 1)
        self.bn = nn.BatchNorm3d(channels, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        keys = F.max_pool3d(x, (1, 2, 2)) if self.pooled else x
        theta = self.conv_theta(x).flatten(2)
        phi, g = self.conv_phi(keys).flatten(2), self.conv_g(keys).flatten(2)
        f = theta.mT @ phi
        a = f / f.shape[-1] if self.dot else (f * theta.shape[1] ** -0.5).softmax(-1)
        y = self.conv_out((g @ a.mT).unflatten(2, x.shape[2:]))
        return x + self.bn(y)


class Authors(nn.Module):
    """Keys theta_conv, pi_conv, g_conv, z_conv, z_bn; several heads, scaled or bare softmax."""

    def __init__(self, channels: int, heads: int, softmax: bool) -> None:
        super().__init__()
        self.heads, self.softmax = heads, softmax
        self.theta_conv = nn.Conv2d(channels, channels, 1, bias=False)
        self.pi_conv = nn.Conv2d(channels, channels, 1, bias=False)
        self.g_conv = nn.Conv2d(channels, channels, 1, bias=False)
        self.z_conv = nn.Conv2d(channels, channels, 1, bias=False)
        self.z_bn = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        theta, phi, g = (
            conv(x).flatten(2).unflatten(1, (self.heads, -1))
            for conv in (self.theta_conv, self.pi_conv, self.g_conv)
        )
        f = theta.mT @ phi
        a = f.softmax(-1) if self.softmax else f / (f.shape[-1] * theta.shape[2]) ** 0.5
        y = (g @ a.mT).flatten(1, 2).unflatten(2, x.shape[2:])
        return x + self.z_bn(self.z_conv(y))


CASES = [
    *(
        (NONLocalBlock2D(8, dot, pooled, norm), (6, 8), "mean" if dot else "softmax")
        for dot in (False, True)
        for pooled in (False, True)
        for norm in (False, True)
    ),
    *(
        (Nonlocal(8, dot, pooled), (2, 4, 6), "mean" if dot else "softmax")
        for dot in (False, True)
        for pooled in (False, True)
    ),
    *(
        (Authors(8, heads, softmax), (6, 8), "softmax" if softmax else "scaled")
        for heads in (1, 2, 4)
        for softmax in (False, True)
    ),
]


@pytest.mark.parametrize(("block", "space", "attention"), CASES, ids=lambda v: type(v).__name__)
def test_the_same_function(block: nn.Module, space: tuple[int, ...], attention: str) -> None:
    """Pooling, scales, biases, norms and heads are recognised, and the output is the same."""
    block = randomise(copy.deepcopy(block)).eval()
    x = torch.randn(2, 8, *space)
    truth = block(x)
    converted, report = scalednl.convert(nn.Sequential(block), attention="same")
    assert report.conversions[0].was == attention
    assert_close(converted(x), truth, 1e-5)


def test_freshly_initialised_blocks_are_recognised_too() -> None:
    """A block whose output is still zero, as most start, is converted to the right attention."""
    block = Authors(8, 4, softmax=False)
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


def test_a_block_used_twice_stays_one_block() -> None:
    """Shared modules are converted once, wherever they hang."""
    block = randomise(NONLocalBlock2D(8, False, False, True)).eval()
    network = nn.ModuleDict({"a": block, "b": nn.Sequential(block)})
    converted, report = scalednl.convert(network, attention="softmax")
    assert len(report.conversions) == 2
    assert converted.get_submodule("a") is converted.get_submodule("b.0")


class Twisted(Authors):
    """The same keys and another function."""

    def forward(self, x: Tensor) -> Tensor:
        """x twice."""
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    ("model", "attention", "sentence"),
    [
        (
            nn.Sequential(Twisted(8, 1, True)),
            "scaled",
            "0 looks like .* no option of ours",
        ),
        (nn.Sequential(nn.Conv2d(3, 3, 1)), "scaled", "Sequential has no block with theta, phi"),
        (NONLocalBlock2D(8, True, False, True), "softmax", 'is a mean block.*attention="same"'),
        (NONLocalBlock2D(8, True, False, True), "linear", "attention='linear' is unknown"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_refusals(model: nn.Module, attention: str, sentence: str) -> None:
    """What cannot be converted is said, with its place."""
    with pytest.raises(ValueError, match=sentence):
        scalednl.convert(model, attention=attention)  # type: ignore[arg-type]


def test_a_foreign_checkpoint_with_other_prefixes() -> None:
    """rename leads the authors' prefixes to ours; without it nothing is found, and that is said."""
    blocks = nn.Sequential(randomise(Authors(8, 2, False)), randomise(Authors(8, 2, False))).eval()
    state = {f"layer2.nonlocal.head.{key}": value for key, value in blocks.state_dict().items()}
    ours = nn.ModuleDict({"stack": nn.Sequential(*(scalednl.NonLocal2d(8, heads=2) for _ in "12"))})
    rename = {"layer2.nonlocal.head": "stack"}
    assert scalednl.load_foreign_state_dict(ours, state, rename) == ("stack.0", "stack.1")
    x = torch.randn(2, 8, 4, 6)
    assert_close(ours.eval()["stack"](x), blocks(x), 1e-5)
    with pytest.raises(ValueError, match="no block of the model finds foreign weights"):
        scalednl.load_foreign_state_dict(ours, state)
