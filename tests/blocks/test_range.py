"""Large inputs: what overflows in float16, and in float32 at the sixth power of x."""

import copy

import pytest
import torch
from torch import nn

import scalednl
from scalednl.ops.planner import Choice
from tests.support import assert_close, assert_close_all, force, randomise, with_gradients

SIZES = [15.0, 60.0, 300.0]


@pytest.mark.parametrize("how", ["autocast", "half weights"])
@pytest.mark.parametrize("side", [8, 16, 32])
@pytest.mark.parametrize("size", SIZES)
def test_fp16_training_at_the_papers_shapes_stays_finite(size: float, side: int, how: str) -> None:
    """128 channels, fp16, deviations of 15 to 300: output and gradients are finite."""
    block = scalednl.NonLocal2d(128, norm_init=1.0)
    x = (size * torch.randn(4, 128, side, side)).half().requires_grad_()
    truth = copy.deepcopy(block)(x.float()) - x.float()
    if how == "half weights":
        z = block.half()(x)
    else:
        with torch.autocast("cpu", dtype=torch.float16):
            assert block.choice(x.shape).order == "gram"
            z = block(x)
    z.backward(torch.randn_like(z))
    assert torch.isfinite(z).all()
    assert z.dtype == torch.float16
    error = (z.float() - x.float() - truth).norm() / truth.norm()
    assert error < 0.01 + 1e-3 * size, "more than the rounding of x"
    for tensor in (x, *block.parameters()):
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()


@pytest.mark.parametrize("norm", ["group", "pooled keys", "biases", "evaluation"])
def test_fp16_with_a_norm_that_does_not_fold_stays_finite(norm: str) -> None:
    """Where the norm must be called, u is float32; in evaluation it folds into the small matrix."""
    options: dict[str, dict[str, object]] = {
        "group": {"norm_layer": lambda channels: nn.GroupNorm(4, channels)},
        "pooled keys": {"key_pool": "before"},
        "biases": {"bias": ("theta", "phi", "g")},
    }
    block = scalednl.NonLocal2d(64, norm_init=1.0, **options.get(norm, {}))  # type: ignore[arg-type]
    if norm == "evaluation":
        x = 300 * torch.randn(4, 64, 16, 16)
        block.norm.momentum = 1.0  # type: ignore[union-attr]
        block(x)
        block.eval()
    x = (300 * torch.randn(4, 64, 16, 16)).half().requires_grad_()
    truth = copy.deepcopy(block)(x.float()) - x.float()
    with torch.autocast("cpu", dtype=torch.float16):
        assert block.choice(x.shape).order == "gram"
        z = block(x)
    z.backward(torch.randn_like(z))
    assert z.dtype == torch.float16
    assert_close(z.float() - x.float(), truth, 0.3)
    for tensor in (x, *block.parameters()):
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()


@pytest.mark.parametrize("view", ["base", "magnitude"])
@pytest.mark.parametrize("order", ["auto", "associative"])
def test_a_float32_norm_beside_fp16_convolutions_keeps_its_variance(order: str, view: str) -> None:
    """In evaluation the branch is there where its variance exceeds the range of float16."""
    block = scalednl.NonLocal2d(64, norm_init=1.0, view=view, order=order)  # type: ignore[arg-type]
    assert isinstance(block.norm, nn.BatchNorm2d)
    block.norm.momentum = 1.0
    x = (6 * torch.randn(4, 64, 16, 16)).half()
    block(x.float())
    truth = block.eval()(x.float()) - x.float()
    variance = block.norm.running_var
    assert variance is not None
    assert (variance > 65504).all()
    for conv in (block.theta, block.phi, block.g, block.out):
        conv.half()
    z = block(x)
    assert z.dtype == torch.float16
    assert (z.float() - x.float() - truth).norm() < 0.01 * truth.norm()


def test_the_plan_says_why_in_fp16() -> None:
    """In float16 the plan prefers gram, with half weights the folded one, and gives the reason."""
    shape = (128, 128, 16, 16)
    block = scalednl.NonLocal2d(128)
    assert block.plan(shape).choice == Choice("gram", False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert block.plan(shape).choice == Choice("gram", False)
    with torch.autocast("cpu", dtype=torch.float16):
        plan = block.plan(shape)
    assert plan.choice == Choice("gram", False), "u is float32 beside float32 weights"
    assert "chosen: the least likely to overflow in float16" in str(plan)
    assert "may overflow in float16" in str(plan)
    assert block.half().plan(shape).choice == Choice("gram", True)


def test_half_convolutions_beside_a_float32_norm_stay_finite() -> None:
    """u is float32 where the norm takes it, also if the norm does not fold."""
    block = scalednl.NonLocal2d(64, norm_init=1.0, norm_layer=lambda c: nn.GroupNorm(4, c)).half()
    assert block.norm is not None
    block.norm.float()
    x = (60 * torch.randn(2, 64, 16, 16)).half().requires_grad_()
    z = block(x)
    z.backward(torch.randn_like(z))
    for tensor in (z, x.grad, *(p.grad for p in block.parameters())):
        assert tensor is not None
        assert torch.isfinite(tensor).all()


def test_the_magnitude_view_under_autocast_stays_finite() -> None:
    """The sums of rank_one and its branch are float32 beside float32 weights."""
    block = scalednl.NonLocal2d(64, norm_init=1.0, view="magnitude")
    x = (60 * torch.rand(2, 64, 16, 16)).half().requires_grad_()
    truth = copy.deepcopy(block)(x.float()) - x.float()
    with torch.autocast("cpu", dtype=torch.float16):
        assert block.choice(x.shape).order == "rank_one"
        z = block(x)
    z.backward(torch.randn_like(z))
    assert (z.float() - x.float() - truth).norm() < 0.05 * truth.norm()
    for parameter in block.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()


@pytest.mark.parametrize("memory", ["auto", "lean"])
@pytest.mark.parametrize("size", [1e6, 1e7, 1e9])
def test_huge_float32_maps_train(size: float, memory: str) -> None:
    """Folded batch norm gives the float64 gradients where the variance of u leaves float32."""
    block = scalednl.NonLocal2d(16, norm_init=1.0, memory=memory)  # type: ignore[arg-type]
    force(block, Choice("gram", True))
    x = (size * (torch.randn(2, 16, 12, 12) + 1)).requires_grad_()
    grad = torch.randn_like(x)
    exact, wide = copy.deepcopy(block).double(), x.detach().double().requires_grad_()
    truth = with_gradients(None, exact, wide, grad.double())
    assert_close_all(with_gradients(block, block, x, grad), truth, 1e-3)
    assert not any(buffer.isnan().any() for buffer in block.buffers())
    assert torch.isfinite(block.eval()(x)).all()


def test_moments_of_huge_maps() -> None:
    """apply_moments in training mode has the same range."""
    block = scalednl.NonLocal2d(16, norm_init=1.0)
    x = 1e7 * torch.randn(2, 16, 12, 12)
    z = block.apply_moments(x, scalednl.Moments().update(x))
    assert_close(z, copy.deepcopy(block).double()(x.double()), 1e-6)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("view", ["base", "magnitude", "direction"])
def test_half_maps_give_half_maps(view: str, norm: bool, bias: bool, training: bool) -> None:
    """Under autocast z has the dtype of x, in every view and mode."""
    block = randomise(scalednl.NonLocal2d(8, view=view, norm=norm, bias=bias))  # type: ignore[arg-type]
    x = torch.randn(2, 8, 6, 6)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        with torch.autocast("cpu", dtype=torch.bfloat16 if dtype == torch.float32 else dtype):
            assert block.train(training)(x.to(dtype)).dtype == dtype
