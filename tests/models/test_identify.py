"""Blocks that only look like ours: they are left as they are, with a sentence each."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import scalednl
from tests.models.foreign_blocks import (
    PAM,
    Attention,
    Authors,
    CrissCross,
    NONLocalBlock,
    over,
    softmax,
)
from tests.support import assert_close, randomise


class Doubled(NONLocalBlock):
    """The same names and another residual."""

    def forward(self, x: Tensor) -> Tensor:
        """2 z."""
        return 2 * super().forward(x)


class WithMap(PAM):
    """Returns its attention too, as many copies of SAGAN do."""

    def forward(self, x: Tensor) -> Tensor:
        """z and a map."""
        return super().forward(x), x  # type: ignore[return-value]


class Detached(NONLocalBlock):
    """The same values and other gradients."""

    def forward(self, x: Tensor) -> Tensor:
        """z, the branch without gradient."""
        return x + (super().forward(x) - x).detach()


class FixedSize(NONLocalBlock):
    """Takes maps of one size."""

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        return super().forward(x + torch.zeros(1, 1, 14, 14, dtype=x.dtype))


class Windows(NONLocalBlock):
    """Attends inside windows where they fit."""

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        if any(size % 8 for size in x.shape[2:]):
            return super().forward(x)
        windows = x.unfold(2, 8, 8).unfold(3, 8, 8)
        inner = super().forward(windows.permute(0, 2, 3, 1, 4, 5).flatten(0, 2))
        rows = inner.view(len(x), x.shape[2] // 8, x.shape[3] // 8, *inner.shape[1:])
        return rows.permute(0, 3, 1, 4, 2, 5).reshape(x.shape)


class Gaussian(nn.Module):
    """Called non-local, without embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.g = nn.Conv2d(8, 8, 1)


class Flattening(NONLocalBlock):
    """One-dimensional convolutions for maps of any number of axes."""

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        return super().forward(x.flatten(2)).view_as(x)


class NonLocalGaussian(Gaussian):
    """By its name alone."""


def with_dropout(p: float) -> nn.Module:
    """A block with dropout on its attention."""
    block = NONLocalBlock(8, softmax())
    block.drop = nn.Dropout(p)
    weigh = block.weigh

    class Dropping(NONLocalBlock):
        def forward(self, x: Tensor) -> Tensor:
            self.weigh = lambda f: F.dropout(weigh(f), p, self.training)
            return super().forward(x)

    block.__class__ = Dropping
    return block


def changed(name: str, module: nn.Module) -> nn.Module:
    """A block with one part replaced."""
    block = NONLocalBlock(8, softmax())
    setattr(block, name, module)
    return block


def spectral_attention() -> nn.Module:
    """A block with a gamma, whose output convolution computes its weights."""
    block = Attention(16)
    nn.utils.parametrizations.spectral_norm(block.o)
    return block


def heard_attention() -> nn.Module:
    """A block with a gamma, whose output convolution has a hook on its gradient."""
    block = Attention(16)
    block.o.register_full_backward_pre_hook(lambda *_: None)
    return block


def dim1_softmax(f: Tensor) -> Tensor:
    """Normalised over queries instead of keys."""
    return f.softmax(1)


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "doubled": (lambda: Doubled(8, softmax()), "adds it to x in another way"),
    "tuple": (lambda: WithMap(8), "returns a tuple, where ours returns one tensor"),
    "detached": (lambda: Detached(8, softmax()), "adds it to x in another way"),
    "one size": (lambda: FixedSize(8, softmax()), "does not run on a map of shape"),
    "windows": (lambda: Windows(8, softmax()), "something else on a map of 16x32 pixels"),
    "criss-cross": (lambda: CrissCross(8), "computes what no option of ours does"),
    "sigmoid": (lambda: NONLocalBlock(8, torch.sigmoid), "computes what no option of ours does"),
    "relu": (lambda: NONLocalBlock(8, F.relu), "computes what no option of ours does"),
    "over queries": (lambda: NONLocalBlock(8, dim1_softmax), "no option of ours does"),
    "power of N": (lambda: NONLocalBlock(8, over(0.7)), "no option of ours does"),
    "scale of N": (
        lambda: NONLocalBlock(8, lambda f: (f / f.shape[-1] ** 0.5).softmax(-1)),
        "no option of ours does",
    ),
    "3x3": (lambda: changed("theta", nn.Conv2d(8, 4, 3, padding=1)), "a 3x3 convolution as theta"),
    "strided": (lambda: changed("phi", nn.Conv2d(8, 4, 1, 2)), "a strided convolution as phi"),
    "grouped": (lambda: changed("g", nn.Conv2d(8, 4, 1, groups=2)), "a grouped convolution as g"),
    "widths": (lambda: changed("phi", nn.Conv2d(8, 2, 1)), "theta of 4 channels but phi of 2"),
    "wide g": (lambda: changed("g", nn.Conv2d(8, 6, 1)), "do not belong to one map"),
    "linear": (
        lambda: changed("theta", nn.Sequential(nn.Conv2d(8, 4, 1))),
        "not four convolutions",
    ),
    "further": (lambda: changed("extra", nn.Linear(2, 2)), r"further weights \(extra.weight"),
    "overlapping pool": (
        lambda: NONLocalBlock(8, softmax(), pool=nn.MaxPool2d(3, 2)),
        "pools with MaxPool2d.kernel_size=3, stride=2.* with stride=kernel_size and nothing else",
    ),
    "padded pool": (
        lambda: NONLocalBlock(8, softmax(), pool=nn.MaxPool2d(3, padding=1)),
        "pools with MaxPool2d.*padding=1",
    ),
    "dilated pool": (
        lambda: NONLocalBlock(8, softmax(), pool=nn.MaxPool2d(2, dilation=2)),
        "pools with MaxPool2d.*dilation=2",
    ),
    "complete pool": (
        lambda: NONLocalBlock(8, softmax(), pool=nn.MaxPool2d(3, ceil_mode=True)),
        "pools with MaxPool2d.*ceil_mode=True",
    ),
    "large pool": (
        lambda: NONLocalBlock(8, softmax(), pool=nn.MaxPool2d(9)),
        "does not run on a map of shape",
    ),
    "average pool": (
        lambda: NONLocalBlock(8, softmax(), pool=nn.AvgPool2d(2)),
        "pools with AvgPool2d",
    ),
    "dropout": (lambda: with_dropout(0.5), r"in training .*Dropout\(p=0.5"),
    "flattening": (lambda: Flattening(8, softmax(), dims=1), "flattens maps"),
    "by name": (NonLocalGaussian, "has no theta, phi, g and out"),
    "spectral norm": (spectral_attention, "ParametrizedConv2d as out .* remove these first"),
    "hook on a gradient": (heard_attention, "Conv2d as out .* has hooks: remove these first"),
    "meta": (lambda: NONLocalBlock(8, softmax()).to("meta"), "on the meta device"),
    "not finite": (
        lambda: NONLocalBlock(8, lambda f: f.softmax(-1) / 0.0),
        "not finite",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.usefixtures("unchecked_shapes")
def test_a_sentence_for_each(name: str) -> None:
    """Alone it is a ValueError; beside a block that can be converted it is a line of the report."""
    make, sentence = REFUSED[name]
    block = make()
    before = copy.deepcopy(block.state_dict())
    with pytest.raises(ValueError, match=f"(?s)the model: not converted: .*{sentence}"):
        scalednl.convert(block)
    network = nn.Sequential(block, NONLocalBlock(8, softmax()))
    _, report = scalednl.convert(network, attention="same")
    assert [c.path for c in report.conversions] == ["1"]
    assert [u.path for u in report.unconverted] == ["0"]
    assert network[0] is block
    assert report.unconverted[0].why in str(report)
    for key, value in block.state_dict().items():
        assert value.is_meta or torch.equal(value, before[key])


def test_dropout_of_zero_is_no_reason() -> None:
    """A block whose dropout does nothing is converted."""
    assert scalednl.convert(with_dropout(0.0), attention="same")[1].conversions


def test_an_epsilon_is_tolerated_and_shown() -> None:
    """A direction with a small epsilon is converted; the report has the difference it makes."""

    class Epsilon(Authors):
        def forward(self, x: Tensor) -> Tensor:
            theta, phi, g = (
                conv(x).flatten(2).unflatten(1, (2, -1))
                for conv in (self.theta_conv, self.pi_conv, self.g_conv)
            )
            theta, phi = (v / (v.norm(dim=2, keepdim=True) + 1e-7) for v in (theta, phi))
            y = (g @ self.weigh(theta.mT @ phi).mT).flatten(1, 2).unflatten(2, x.shape[2:])
            return x + self.z_bn(self.z_conv(y))

    ours, report = scalednl.convert(Epsilon(8, 2, over(0.5, 4)), attention="same")
    assert ours.view == "direction"
    assert 1e-9 < report.conversions[0].difference < 1e-5


def test_containers_are_not_reported() -> None:
    """A module that is called non-local only because it contains the blocks is no block."""

    class NonLocalNetwork(nn.Sequential):
        pass

    network = NonLocalNetwork(nn.Conv2d(3, 8, 1), NONLocalBlock(8, softmax()))
    network, report = scalednl.convert(network)  # type: ignore[assignment]
    assert not report.unconverted
    with pytest.raises(ValueError, match="NonLocalNetwork has no non-local block under names"):
        scalednl.convert(network)


@pytest.mark.parametrize(
    ("model", "attention", "sentence"),
    [
        (nn.Sequential(nn.Conv2d(3, 3, 1)), "scaled", "Sequential has no non-local block"),
        (NONLocalBlock(8, over(1)), "softmax", 'is a mean block.*attention="same"'),
        (NONLocalBlock(8, over(1)), "linear", "attention='linear' is unknown"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_wrong_requests(model: nn.Module, attention: str, sentence: str) -> None:
    """A network without blocks, another function than the block has, an unknown attention."""
    with pytest.raises(ValueError, match=sentence):
        scalednl.convert(model, attention=attention)


def test_a_request_that_fits_some_blocks_changes_none() -> None:
    """attention="softmax" for a network that also has a mean block leaves both as they are."""
    network = nn.Sequential(NONLocalBlock(8, softmax()), NONLocalBlock(8, over(1)))
    with pytest.raises(ValueError, match="1 is a mean block"):
        scalednl.convert(network, attention="softmax")
    assert all(isinstance(block, NONLocalBlock) for block in network)


def test_the_weights_a_block_has_are_tried_too() -> None:
    """A block that computes something else with its own weights only is not converted."""

    class Gated(PAM):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if self.gamma.abs() < 5 else x - super().forward(x)

    block = randomise(Gated(8))
    x = torch.randn(2, 8, 4, 4)
    assert_close(scalednl.convert(copy.deepcopy(block), attention="same")[0](x), block(x), 1e-5)
    block.gamma.data.fill_(7.0)
    with pytest.raises(ValueError, match="adds it to x in another way"):
        scalednl.convert(block)


def test_a_block_in_a_plain_list_is_left() -> None:
    """A list that torch does not know would still call the old block, so it is not replaced."""
    network = nn.Sequential(NONLocalBlock(8, softmax()), NONLocalBlock(8, softmax()))
    network.order = [network[1]]  # type: ignore[assignment]
    _, report = scalednl.convert(network)
    assert [c.path for c in report.conversions] == ["0"]
    assert "is also in Sequential.order" in str(report)
