"""What is checked before inserted blocks may stay."""

import random
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import scalednl
from tests.models.hosts import IMAGES, conv, network


class WithoutGradient(nn.Module):
    """A frozen part that runs without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = conv()

    def forward(self, x: Tensor) -> Tensor:
        """Under no_grad."""
        with torch.no_grad():
            return self.conv(x)


class Detaching(nn.Module):
    """Stops the gradient."""

    def forward(self, x: Tensor) -> Tensor:
        """X without its history."""
        return x.detach()


class LoopingModules(nn.Module):
    """Runs every convolution below it, however deep."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = conv()

    def forward(self, x: Tensor) -> Tensor:
        """All convolutions."""
        for module in self.modules():
            x = module(x) if isinstance(module, nn.Conv2d) else x
        return x


class Unseeded(nn.Module):
    """Random numbers that torch's seed does not fix."""

    def forward(self, x: Tensor) -> Tensor:
        """Random."""
        return x + random.random()


class NotFinite(nn.Module):
    """Gives NaN."""

    def forward(self, x: Tensor) -> Tensor:
        """NaN."""
        return x * float("nan")


@dataclass
class Record:
    """An output that is a dataclass."""

    maps: Tensor
    number: int


class Recording(nn.Module):
    """Gives a dataclass."""

    def forward(self, x: Tensor) -> Record:
        """A record."""
        return Record(x, 1)


class Unpacking(nn.Module):
    """Calls a module that gives a dataclass."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Recording()

    def forward(self, x: Tensor) -> Tensor:
        """The record's maps."""
        return self.inner(x).maps


@pytest.mark.parametrize(
    ("make", "at", "sentence"),
    [
        (WithoutGradient, "body.conv", "'body.conv' cannot learn: it runs under torch.no_grad()"),
        (Detaching, "stem", "'stem' cannot learn: .* or is detached from it"),
        (LoopingModules, "body", r"output changed by .* loop over its own modules\(\)"),
        (Unseeded, "stem", "different outputs for the same input in evaluation mode"),
        (NotFinite, "stem", "output for the trial input is not finite"),
        (Unpacking, "body.inner", "gives a Record of maps: a tensor of shape .* number: an int"),
    ],
)
def test_networks_that_cannot_take_blocks(make: "type[nn.Module]", at: str, sentence: str) -> None:
    """Each is refused with its reason, and left as it was."""
    model = network(make())
    names = [name for name, _ in model.named_modules()]
    with pytest.raises((ValueError, RuntimeError), match=sentence):
        scalednl.insert_nonlocal(model, at, example=IMAGES)
    assert [name for name, _ in model.named_modules()] == names
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_layer_that_starts_at_zero_is_reported() -> None:
    """Behind a zero classifier the gradient is 0 at first: accepted, and said."""
    model = network(conv())
    nn.init.zeros_(model.get_parameter("head.linear.weight"))
    _, report = scalednl.insert_nonlocal(model, "body", example=IMAGES)
    assert report.checks is not None
    assert report.checks.held == ("body",)
    assert "at body after a later layer has moved from 0" in str(report)
