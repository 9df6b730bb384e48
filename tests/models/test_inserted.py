"""Stacks behind modules of every kind: each runs exactly once per call, or the place is refused."""

import copy
import pickle
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import scalednl
from scalednl.models.inserted import InsertedStack

IMAGES = torch.randn(2, 3, 32, 24, generator=torch.Generator().manual_seed(0))


def _conv(inputs: int = 8, outputs: int = 8) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


class Head(nn.Module):
    """Scores from the mean over all pixels."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.linear(x.mean((2, 3)))


def _network(body: nn.Module, channels: int = 8) -> nn.Sequential:
    return nn.Sequential(OrderedDict(stem=_conv(3), body=body, head=Head(channels)))


class LoopingChildren(nn.Module):
    """Runs all its children, as timm's RegNet stages do."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _conv(), _conv()

    def forward(self, x: Tensor) -> Tensor:
        """All children, one after the other."""
        for child in self.children():
            x = child(x)
        return x


class LoopingList(nn.ModuleList):
    """A list with a forward of its own."""

    def forward(self, x: Tensor) -> Tensor:
        """All children, one after the other."""
        for child in self:
            x = child(x)
        return x


class Appending(nn.Sequential):
    """Concatenates what its children give, as dense blocks and VoVNet do."""

    def forward(self, x: Tensor) -> Tensor:
        """The input and what every child gives."""
        parts = [x]
        for child in self:
            parts.append(child(parts[-1]))
        return torch.cat(parts, 1)


class DenseDict(nn.ModuleDict):
    """Gives the list of all maps so far to each child, as torchvision's dense blocks do."""

    def forward(self, x: Tensor) -> Tensor:
        """The input and what every child gives."""
        parts = [x]
        for _, child in self.items():
            parts.append(child(torch.cat(parts, 1)))
        return torch.cat(parts, 1)


class Indexing(nn.Module):
    """Looks at the last child and the length of a Sequential that it also calls."""

    def __init__(self) -> None:
        super().__init__()
        self.sequence = nn.Sequential(_conv(), _conv())

    def forward(self, x: Tensor) -> Tensor:
        """The Sequential, and its length."""
        last = self.sequence[-1].bias
        assert isinstance(last, Tensor)
        return self.sequence(x) + len(self.sequence) + last.sum()


class OneTuple(nn.Module):
    """Calls a module that gives a tuple of one tensor."""

    class Inner(nn.Module):
        """Gives a tuple."""

        def __init__(self) -> None:
            super().__init__()
            self.conv = _conv()

        def forward(self, *, x: Tensor, scale: float) -> tuple[Tensor]:
            """A tuple of one tensor."""
            return (self.conv(x) * scale,)

    def __init__(self) -> None:
        super().__init__()
        self.inner = self.Inner()

    def forward(self, x: Tensor) -> Tensor:
        """The tuple's tensor."""
        (y,) = self.inner(x=x, scale=2.0)
        return y


class InPlace(nn.Module):
    """Changes what its convolution gave."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = _conv()

    def forward(self, x: Tensor) -> Tensor:
        """relu(2 (conv(x) + x)), in place."""
        y = self.conv(x)
        y += x
        return y.mul_(2).relu_()


class Random(nn.Module):
    """Dropout also in evaluation mode."""

    def forward(self, x: Tensor) -> Tensor:
        """Random."""
        return F.dropout(x, 0.5, training=True)


class Counting(nn.Module):
    """Adds the number of its calls."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Calls in a buffer."""
        self.calls += 1
        return x + self.calls


def _taken() -> nn.Module:
    module = LoopingChildren()
    module.register_module("nonlocal_", nn.Identity())
    return module


def _nested() -> nn.Module:
    return Appending(nn.Sequential(Appending(_conv()), _conv(16)), _conv())


CASES: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "children": (LoopingChildren, "body", "body.second.nonlocal_after_body"),
    "list": (lambda: LoopingList([_conv(), _conv()]), "body", "body.1.nonlocal_after_body"),
    "appending": (lambda: Appending(_conv(), _conv()), "body", "body.1.nonlocal_after_body"),
    "nested": (_nested, "body.0.0", "body.0.0.0.nonlocal_after_0"),
    "dictionary": (
        lambda: DenseDict({"a": _conv(), "b": _conv(16)}),
        "body",
        "body.b.nonlocal_after_body",
    ),
    "indexing": (Indexing, "body.sequence", "body.sequence.1.nonlocal_after_sequence"),
    "sequential": (lambda: nn.Sequential(_conv(), nn.ReLU()), "body", "body.nonlocal_"),
    "name taken": (_taken, "body", "body.second.nonlocal_after_body"),
    "tuple and keywords": (OneTuple, "body.inner", "body.inner.nonlocal_"),
    "in place": (InPlace, "body.conv", "body.conv.nonlocal_"),
    "in-place activation": (
        lambda: nn.Sequential(_conv(), nn.BatchNorm2d(8), nn.ReLU(inplace=True)),
        "body.1",
        "body.1.nonlocal_",
    ),
    "random": (lambda: nn.Sequential(_conv(), Random()), "body", "body.nonlocal_"),
    "counting": (lambda: nn.Sequential(_conv(), Counting()), "body", "body.nonlocal_"),
    "frozen": (lambda: _conv().requires_grad_(False), "body", "body.nonlocal_"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_stack_runs_once_per_call_and_learns(case: str) -> None:
    """Also in copies and pickles; its weights are at the reported names and get gradient."""
    make, at, weights = CASES[case]
    body = make()
    channels = body(torch.zeros(1, 8, 4, 4)).shape[1]
    original = _network(body, channels).train()
    model, report = scalednl.insert_nonlocal(copy.deepcopy(original), at, example=IMAGES)
    assert report.unchanged
    assert report.insertions[0].weights == weights
    before = original.state_dict()
    assert [key for key in model.state_dict() if not key.startswith(weights)] == list(before)
    for candidate in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        stack = candidate.get_submodule(weights)
        ran = Mock(return_value=None)
        stack.register_forward_hook(ran)
        torch.manual_seed(0)
        output = candidate(IMAGES)
        torch.manual_seed(0)
        assert torch.equal(output, copy.deepcopy(original)(IMAGES))
        ran.assert_called_once()
        output.square().sum().backward()
        norm = stack.get_parameter("0.norm.weight")
        assert norm.grad is not None
        assert norm.grad.any()


class LoopingInTraining(LoopingChildren):
    """Runs its children in a loop only in training."""

    def forward(self, x: Tensor) -> Tensor:
        """The same in both modes."""
        return super().forward(x) if self.training else self.second(self.first(x))


def test_a_loop_that_no_trial_saw_is_an_error_and_not_a_second_run() -> None:
    """A stack that a loop over children calls refuses, with the module's name."""
    model, _ = scalednl.insert_nonlocal(_network(LoopingInTraining()), "body", example=IMAGES)
    with pytest.raises(RuntimeError, match="blocks behind 'body' run by themselves"):
        model.train()(IMAGES)


def test_shared_modules_by_any_of_their_paths() -> None:
    """An alias of a shared module works; two paths of one module are refused."""
    shared = _conv()
    model = _network(nn.Sequential(OrderedDict(a=shared, b=nn.Sequential(shared))))
    with pytest.raises(ValueError, match=r"'body.a' and 'body.b.0' are the same module"):
        scalednl.insert_nonlocal(model, ["body.a", "body.b.0"], example=IMAGES)
    _, report = scalednl.insert_nonlocal(model, "body.b.0", example=IMAGES)
    assert report.insertions[0].calls == 2
    stacks = [m for m in model.modules() if isinstance(m, InsertedStack)]
    assert len(stacks) == 1


class WithoutGradient(nn.Module):
    """A frozen part that runs without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = _conv()

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
        self.conv = _conv()

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
    model = _network(make())
    names = [name for name, _ in model.named_modules()]
    with pytest.raises((ValueError, RuntimeError), match=sentence):
        scalednl.insert_nonlocal(model, at, example=IMAGES)
    assert [name for name, _ in model.named_modules()] == names
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


class DistributedDataParallel(nn.Sequential):
    """Stands in for torch's, which needs a process group."""


def test_wrapped_networks_are_refused() -> None:
    """A wrapper that has its own list of the weights would miss the new ones."""
    wrapped = DistributedDataParallel(_network(_conv()))
    with pytest.raises(ValueError, match=r"wrapped \(Distr.*\).*insert the blocks first"):
        scalednl.insert_nonlocal(wrapped, "0.stem", example=IMAGES)
    with torch.inference_mode():
        frozen = _network(_conv())
    with pytest.raises(ValueError, match=r"made under torch.inference_mode\(\)"):
        scalednl.insert_nonlocal(frozen, "stem", example=IMAGES)


def test_a_layer_that_starts_at_zero_is_reported() -> None:
    """Behind a zero classifier the gradient is 0 at first: accepted, and said."""
    model = _network(_conv())
    nn.init.zeros_(model.get_parameter("head.linear.weight"))
    _, report = scalednl.insert_nonlocal(model, "body", example=IMAGES)
    assert report.checks is not None
    assert report.checks.held == ("body",)
    assert "at body after a later layer has moved from 0" in str(report)


def test_random_numbers_and_buffers_are_left_alone() -> None:
    """Without new weights to draw, the next random number is the one it would have been."""
    model = _network(nn.Sequential(_conv(), nn.BatchNorm2d(8), Counting(), Random()))
    torch.manual_seed(3)
    scalednl.insert_nonlocal(model, "body", count=0, position=True, example=IMAGES)
    drawn = torch.rand(3)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(3))
    assert model.get_buffer("body.2.calls") == 0
