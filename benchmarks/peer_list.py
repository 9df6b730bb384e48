"""Other people's attention over maps, each made as its documentation makes it."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import torchvision_operators
from scalednl.ops import reference

HEADS = 4


@dataclass(frozen=True)
class Peer:
    """One way to attend over a map, and how to make it for a number of channels."""

    name: str
    package: str
    """The module to import; "" for torch itself"""
    attention: str
    make: Callable[[int], nn.Module]
    converts: bool = False
    """Whether `scalednl.convert` computes the same function with its weights"""
    literal: Callable[[nn.Module, Tensor], Tensor] | None = None
    """What it must give by the literal equations, where these cover it"""

    def missing(self) -> str:
        """Why it cannot be measured here; "" if it can."""
        if not self.package:
            return ""
        if find_spec(self.package) is None:
            return "not installed: make peers"
        try:
            self.create(16)
        except ImportError as error:
            return f"does not import here: {error}"
        return ""

    def create(self, channels: int) -> nn.Module:
        """The module; what packages warn of when imported is theirs."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.make(channels)


class OnRows(nn.Module):
    """A module that takes (batch, pixels, channels), put to work on maps, with the residual."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """x + inner(x)."""
        rows = x.flatten(2).transpose(1, 2)
        return x + self.inner(rows).transpose(1, 2).unflatten(2, x.shape[2:])


class Residual(nn.Module):
    """x + inner(x), for modules that leave the residual to their users."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """x + inner(x)."""
        return x + self.inner(x)


class TorchAttention(nn.Module):
    """x + out(fused attention of 1x1 projections): what one writes with torch alone."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """z."""
        rows = x.flatten(2).transpose(1, 2)
        parts = self.project(rows).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*parts.unbind()).transpose(1, 2).flatten(2)
        return x + self.out(y).transpose(1, 2).unflatten(2, x.shape[2:])


def _literal_attention(module: nn.Module, x: Tensor) -> Tensor:
    """`TorchAttention` by the paper's equations."""
    assert isinstance(module, TorchAttention)
    columns = x.flatten(2)
    theta, phi, g = (weight @ columns for weight in module.project.weight.chunk(3))
    y = reference.nonlocal_attention(theta, phi, g, heads=module.heads, attention="softmax")
    return x + (module.out.weight @ y).unflatten(2, x.shape[2:])


def _timm(channels: int) -> nn.Module:
    torchvision_operators.declare()
    return import_module("timm.layers").NonLocalAttn(channels)


def _mmcv(channels: int, mode: str) -> nn.Module:
    return import_module("mmcv.cnn").NonLocal2d(channels, mode=mode)


def _linear(channels: int) -> nn.Module:
    make = import_module("linear_attention_transformer.images").ImageLinearAttention
    width = channels // HEADS
    return Residual(make(channels, heads=HEADS, key_dim=width, value_dim=width))


def _performer(channels: int) -> nn.Module:
    make = import_module("performer_pytorch").SelfAttention
    return OnRows(make(channels, heads=HEADS, dim_head=channels // HEADS))


def _nystrom(channels: int) -> nn.Module:
    make = import_module("nystrom_attention").NystromAttention
    return OnRows(make(channels, heads=HEADS, dim_head=channels // HEADS))


def _axial(channels: int) -> nn.Module:
    return Residual(
        import_module("axial_attention").AxialAttention(channels, heads=HEADS, dim_index=1)
    )


PEERS = (
    Peer(
        "torch scaled_dot_product_attention",
        "",
        "softmax",
        lambda c: TorchAttention(c, HEADS),
        literal=_literal_attention,
    ),
    Peer("timm NonLocalAttn", "timm", "softmax", _timm, converts=True),
    Peer(
        "mmcv NonLocal2d",
        "mmcv",
        "softmax",
        lambda c: _mmcv(c, "embedded_gaussian"),
        converts=True,
    ),
    Peer(
        "mmcv NonLocal2d dot_product",
        "mmcv",
        "mean",
        lambda c: _mmcv(c, "dot_product"),
        converts=True,
    ),
    Peer("ImageLinearAttention", "linear_attention_transformer", "linear", _linear),
    Peer("Performer SelfAttention", "performer_pytorch", "random features", _performer),
    Peer("NystromAttention", "nystrom_attention", "256 landmarks", _nystrom),
    Peer("AxialAttention", "axial_attention", "rows and columns", _axial),
)
