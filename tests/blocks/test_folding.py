"""Folded batch norm stays batch norm: statistics, momentum, freezing, other norms."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_hook

import scalednl
from scalednl.ops.planner import Choice
from tests.support import assert_close, assert_close_all, force, randomise, with_gradients

FOLDED, APART = Choice("gram", True), Choice("gram", False)


def _norm(**options: object) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(6, **options).double()  # type: ignore[arg-type]


def _pair(norm: nn.Module) -> tuple[scalednl.NonLocal2d, scalednl.NonLocal2d]:
    """The same block twice: norm folded, and norm called as a module."""
    block = scalednl.NonLocal2d(6, heads=2).double()
    block.norm = norm
    randomise(block)
    other = copy.deepcopy(block)
    return force(block, FOLDED), force(other, APART)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.3},
        {"momentum": None},
        {"track_running_stats": False},
        {"affine": False},
        {"eps": 0.1},
    ],
    ids=str,
)
def test_folding_keeps_every_behaviour(options: dict[str, object]) -> None:
    """Outputs, gradients and buffers after three steps and in evaluation equal nn.BatchNorm2d's."""
    folded, apart = _pair(_norm(**options))
    for step in range(3):
        x = torch.randn(3, 6, 4, 5, dtype=torch.float64, requires_grad=True) + step
        grad = torch.randn_like(x)
        assert_close_all(
            with_gradients(folded, folded, x, grad), with_gradients(apart, apart, x, grad), 1e-9
        )
    buffers = dict(apart.named_buffers())
    assert len(buffers) == (0 if options.get("track_running_stats") is False else 3)
    for name, buffer in folded.named_buffers():
        assert_close(buffer, buffers[name], 1e-12, name)
    x = torch.randn(2, 6, 4, 5, dtype=torch.float64)
    assert_close(folded.eval()(x), apart.eval()(x), 1e-10)


def test_a_frozen_norm_stays_frozen() -> None:
    """With norm.eval() inside a training block, running statistics are used and not touched."""
    block = randomise(scalednl.NonLocal2d(6, heads=2).double())
    norm = block.norm
    assert isinstance(norm, _BatchNorm)
    norm.eval()
    before = copy.deepcopy(norm.state_dict())
    x = torch.randn(3, 6, 4, 5, dtype=torch.float64, requires_grad=True)
    grad = torch.randn_like(x)
    truth = with_gradients(None, block, x, grad)
    for order in ("gram", "associative", "quadratic"):
        block.order = order
        assert_close_all(with_gradients(block, block, x, grad), truth, 1e-10)
    for name, value in norm.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize(
    "norm",
    [nn.GroupNorm(2, 6), nn.Identity(), nn.InstanceNorm2d(6)],
    ids=lambda norm: type(norm).__name__,
)
def test_other_norms_are_called(norm: nn.Module) -> None:
    """A norm of another kind put in the block's place is applied as it is."""
    block = scalednl.NonLocal2d(6, heads=2).double()
    bare = copy.deepcopy(block)
    bare.norm = None
    block.norm = norm.double()
    x = torch.randn(3, 6, 4, 5, dtype=torch.float64)
    for training in (True, False):
        u = bare.train(training)(x) - x
        assert_close(block.train(training)(x), x + norm(u), 1e-10)


def test_sync_batch_norm_is_not_folded_in_training() -> None:
    """convert_sync_batchnorm works: called as a module in training, folded in evaluation."""
    plain = randomise(scalednl.NonLocal2d(6, heads=2).double())
    block = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
    assert isinstance(block.norm, nn.SyncBatchNorm)
    x = torch.randn(3, 6, 4, 5, dtype=torch.float64)
    assert_close(block.eval()(x), plain.eval()(x), 1e-12)
    called = []
    block.norm.register_forward_hook(lambda *_: called.append(True))
    force(block, FOLDED).train()
    assert_close(block(x), plain.train()(x), 1e-10)
    assert called


def test_one_value_per_channel_is_refused_as_by_torch() -> None:
    """Training on a single pixel raises, because it has no variance."""
    block = force(scalednl.NonLocal2d(8), FOLDED)
    with pytest.raises(ValueError, match=r"more than one value per channel.*\(1, 8, 1, 1\)"):
        block(torch.randn(1, 8, 1, 1))


@pytest.mark.parametrize("choice", [APART, Choice("associative")], ids=str)
def test_the_residual_is_added_in_place_where_nobody_has_the_norms_output(choice: Choice) -> None:
    """Bits and gradients of x + norm(u); what a hook on every module keeps is not changed."""
    block = force(scalednl.NonLocal2d(8, norm_init=1.0), choice)
    x, grad = torch.randn(2, 8, 5, 5, requires_grad=True), torch.randn(2, 8, 5, 5)
    inputs = [x, *block.parameters()]
    in_place = block(x)
    seen: list[Tensor] = []

    def note(module: nn.Module, _: object, output: Tensor) -> None:
        if module is block.norm:
            seen.append(output)

    hook = register_module_forward_hook(note)
    try:
        apart = block(x)
    finally:
        hook.remove()
    assert torch.equal(apart, x + seen[0])
    assert torch.equal(in_place, apart)
    pairs = (torch.autograd.grad(z, inputs, grad) for z in (in_place, apart))
    for ours, theirs in zip(*pairs, strict=True):
        assert torch.equal(ours, theirs)
