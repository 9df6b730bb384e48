"""Stacks behind modules of every kind: each runs exactly once per call, or the place is refused."""

import copy
import pickle
from collections import OrderedDict
from collections.abc import Callable
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

import scalednl
from scalednl.models.inserted import InsertedStack
from tests.models.hosts import IMAGES, Counting, LoopingChildren, Random, conv, network


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
        self.sequence = nn.Sequential(conv(), conv())

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
            self.conv = conv()

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
        self.conv = conv()

    def forward(self, x: Tensor) -> Tensor:
        """relu(2 (conv(x) + x)), in place."""
        y = self.conv(x)
        y += x
        return y.mul_(2).relu_()


def _taken() -> nn.Module:
    module = LoopingChildren()
    module.register_module("nonlocal_", nn.Identity())
    return module


def _nested() -> nn.Module:
    return Appending(nn.Sequential(Appending(conv()), conv(16)), conv())


CASES: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "children": (LoopingChildren, "body", "body.second.nonlocal_after_body"),
    "list": (lambda: LoopingList([conv(), conv()]), "body", "body.1.nonlocal_after_body"),
    "appending": (lambda: Appending(conv(), conv()), "body", "body.1.nonlocal_after_body"),
    "nested": (_nested, "body.0.0", "body.0.0.0.nonlocal_after_0"),
    "dictionary": (
        lambda: DenseDict({"a": conv(), "b": conv(16)}),
        "body",
        "body.b.nonlocal_after_body",
    ),
    "indexing": (Indexing, "body.sequence", "body.sequence.1.nonlocal_after_sequence"),
    "sequential": (lambda: nn.Sequential(conv(), nn.ReLU()), "body", "body.nonlocal_"),
    "name taken": (_taken, "body", "body.second.nonlocal_after_body"),
    "tuple and keywords": (OneTuple, "body.inner", "body.inner.nonlocal_"),
    "in place": (InPlace, "body.conv", "body.conv.nonlocal_"),
    "in-place activation": (
        lambda: nn.Sequential(conv(), nn.BatchNorm2d(8), nn.ReLU(inplace=True)),
        "body.1",
        "body.1.nonlocal_",
    ),
    "random": (lambda: nn.Sequential(conv(), Random()), "body", "body.nonlocal_"),
    "counting": (lambda: nn.Sequential(conv(), Counting()), "body", "body.nonlocal_"),
    "frozen": (lambda: conv().requires_grad_(False), "body", "body.nonlocal_"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_stack_runs_once_per_call_and_learns(case: str) -> None:
    """Also in copies and pickles; its weights are at the reported names and get gradient."""
    make, at, weights = CASES[case]
    body = make()
    channels = body(torch.zeros(1, 8, 4, 4)).shape[1]
    original = network(body, channels).train()
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
    model, _ = scalednl.insert_nonlocal(network(LoopingInTraining()), "body", example=IMAGES)
    with pytest.raises(RuntimeError, match="blocks behind 'body' run by themselves"):
        model.train()(IMAGES)


def test_shared_modules_by_any_of_their_paths() -> None:
    """An alias of a shared module works; two paths of one module are refused."""
    shared = conv()
    model = network(nn.Sequential(OrderedDict(a=shared, b=nn.Sequential(shared))))
    with pytest.raises(ValueError, match=r"'body.a' and 'body.b.0' are the same module"):
        scalednl.insert_nonlocal(model, ["body.a", "body.b.0"], example=IMAGES)
    size = tuple(IMAGES.shape[-2:])
    with pytest.raises(
        ValueError, match=rf"\({size[0]}, {size[1]}\) and 'body' are the same module"
    ):
        scalednl.insert_nonlocal(network(conv()), {size: 1, "body": 2}, example=IMAGES)
    _, report = scalednl.insert_nonlocal(model, "body.b.0", example=IMAGES)
    assert report.insertions[0].calls == 2
    stacks = [m for m in model.modules() if isinstance(m, InsertedStack)]
    assert len(stacks) == 1


class DistributedDataParallel(nn.Sequential):
    """Stands in for torch's, which needs a process group."""


def test_wrapped_networks_are_refused() -> None:
    """A wrapper that has its own list of the weights would miss the new ones."""
    wrapped = DistributedDataParallel(network(conv()))
    with pytest.raises(ValueError, match=r"wrapped \(Distr.*\).*insert the blocks first"):
        scalednl.insert_nonlocal(wrapped, "0.stem", example=IMAGES)
    with torch.inference_mode():
        frozen = network(conv())
    with pytest.raises(ValueError, match=r"made under torch.inference_mode\(\)"):
        scalednl.insert_nonlocal(frozen, "stem", example=IMAGES)
