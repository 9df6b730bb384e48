"""Norms that see the pixels of a mask alone."""

import pytest
import torch
from torch import Tensor, nn

import scalednl
from scalednl.blocks.masked_norm import (
    batch_statistics,
    gathered_norm,
    reason_against_mask,
    uses_batch,
)
from scalednl.ops.planner import Choice
from tests.support import assert_close, force, randomise, reference_block

SPACE = (4, 5)


def _block() -> scalednl.NonLocal2d:
    return force(randomise(scalednl.NonLocal2d(6, heads=2).double()), Choice("gram"))


def _maps() -> Tensor:
    return torch.randn(3, 6, *SPACE, dtype=torch.float64) + 0.5


def _mask() -> Tensor:
    mask = torch.rand(3, *SPACE) > 0.4
    mask[1] = False
    return mask


@pytest.mark.parametrize("kind", ["hooked", "sync", "frozen"])
def test_other_batch_norms_see_the_mask(kind: str) -> None:
    """A norm that must be called gets the pixels that exist; a frozen one is applied as it is."""
    block = _block()
    x, mask = _maps(), _mask()
    truth = reference_block(block, x, mask=mask)
    norm = block.norm
    assert isinstance(norm, nn.BatchNorm2d)
    if kind == "hooked":
        norm.register_forward_hook(lambda *_: None)
    elif kind == "sync":
        sync = nn.SyncBatchNorm(6).double()
        sync.load_state_dict(norm.state_dict())
        block.norm = sync.eval()
        truth = reference_block(block, x, mask=mask)
    else:
        block.norm = _Frozen(norm)
        norm.eval()
        truth = reference_block(_replaced(block, norm), x, mask=mask)
        block.norm = _Frozen(norm)
    assert_close(block(x, mask=mask), truth, 1e-10)


class _Frozen(nn.Module):
    """As in detection: fixed statistics, not a subclass of torch's norm."""

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self.inner = [norm]
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, getattr(norm, name))

    def forward(self, u: Tensor) -> Tensor:
        return self.inner[0].eval()(u)


def _replaced(block: scalednl.NonLocal2d, norm: nn.Module) -> scalednl.NonLocal2d:
    block.norm = norm
    return block


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_statistics_are_over_valid_pixels(dtype: torch.dtype) -> None:
    """Mean and biased variance of each channel, in at least float32; hidden pixels become 0."""
    u, mask = (10 * _maps()).to(dtype), _mask()
    mean, var, centred = batch_statistics(u, mask)
    pixels = u.double().movedim(1, -1)[mask]
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    assert mean.dtype == torch.promote_types(dtype, torch.float32)
    assert_close(mean, pixels.mean(0), tolerance)
    assert_close(var, pixels.var(0, correction=0), tolerance)
    assert_close(centred.movedim(1, -1)[mask], pixels - pixels.mean(0), tolerance)
    assert not centred.movedim(1, -1)[~mask].any()


def test_statistics_of_nothing_are_zeros() -> None:
    """A mask without pixels has mean and variance 0, and finite gradients."""
    u = _maps().requires_grad_()
    mean, var, centred = batch_statistics(u, torch.zeros(3, *SPACE, dtype=torch.bool))
    assert not any(value.any() for value in (mean, var, centred))
    (mean.sum() + var.sum() + centred.sum()).backward()
    assert u.grad is not None
    assert not u.grad.any()


@pytest.mark.parametrize("momentum", [0.1, None])
def test_a_gathered_norm_is_called_once_with_valid_pixels(momentum: float | None) -> None:
    """Output, gradient and running statistics are those of torch's norm over those pixels."""
    norm = randomise(nn.BatchNorm2d(6, momentum=momentum).double())
    truth = nn.BatchNorm2d(6, momentum=momentum).double()
    truth.load_state_dict(norm.state_dict())
    u, mask = _maps().requires_grad_(), _mask()
    found = gathered_norm(u, norm, mask).movedim(1, -1)
    pixels = truth(u.movedim(1, -1)[mask].T[None, :, :, None])[0, :, :, 0].T
    assert_close(found[mask], pixels, 1e-12)
    assert not found[~mask].any()
    grad = torch.randn_like(pixels)
    ours, theirs = (torch.autograd.grad(v, u, grad)[0] for v in (found[mask], pixels))
    assert_close(ours, theirs, 1e-10)
    for kept, wanted in zip(norm.buffers(), truth.buffers(), strict=True):
        assert_close(kept.double(), wanted.double(), 1e-12)


@pytest.mark.parametrize("choice", [Choice("gram", True), Choice("gram"), Choice("associative")])
def test_a_cumulative_average_leaves_out_batches_without_pixels(choice: Choice) -> None:
    """With momentum=None two batches with pixels weigh one half each, the empty one nothing."""
    block = force(_block(), choice)
    norm = block.norm
    assert isinstance(norm, nn.BatchNorm2d)
    norm.momentum = None
    nothing = torch.zeros(3, *SPACE, dtype=torch.bool)
    batches = [(_maps(), _mask()), (_maps(), nothing), (_maps(), _mask())]
    single = []
    for x, mask in (batches[0], batches[2]):
        norm.reset_running_stats()
        block(x, mask=mask)
        single.append(norm.running_var.clone())  # type: ignore[union-attr]
    norm.reset_running_stats()
    for x, mask in batches:
        block(x, mask=mask)
    assert int(norm.num_batches_tracked) == 2  # type: ignore[arg-type]
    assert_close(norm.running_var, (single[0] + single[1]) / 2, 1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize("choice", [Choice("gram", True), Choice("gram"), Choice("associative")])
def test_one_pixel_of_the_whole_batch(choice: Choice) -> None:
    """It has no variance: it becomes x + beta, and everything stays finite."""
    block = force(_block(), choice)
    mask = torch.zeros(3, *SPACE, dtype=torch.bool)
    mask[1, 2, 2] = True
    x = _maps().requires_grad_()
    z = block(x, mask=mask)
    assert isinstance(block.norm, nn.BatchNorm2d)
    assert_close(z[1, :, 2, 2], x[1, :, 2, 2] + block.norm.bias, 1e-9)
    z.square().sum().backward()
    values = (x.grad, *(p.grad for p in block.parameters()), *block.buffers())
    assert all(value is not None and value.isfinite().all() for value in values)


def test_which_norms_a_mask_can_go_with() -> None:
    """Batch norms, frozen ones and none; others are refused by what they print as."""
    norm = nn.BatchNorm2d(6)
    for good in (None, nn.Identity(), norm, nn.SyncBatchNorm(6), _Frozen(norm)):
        assert reason_against_mask(good) == ""
    for bad in (nn.GroupNorm(2, 6), nn.InstanceNorm2d(6, track_running_stats=True), torch.tanh):
        assert f"but the norm is {bad}, whose statistics" in reason_against_mask(bad)
    block = scalednl.NonLocal2d(6, heads=2, norm_layer=nn.InstanceNorm2d, norm_init=1.0)
    with pytest.raises(ValueError, match=r"a mask needs batch norm or none.*InstanceNorm2d"):
        block(torch.randn(3, 6, *SPACE), mask=_mask())


def test_which_norms_use_their_batch() -> None:
    """Batch norm in training, and in evaluation without running statistics."""
    assert uses_batch(nn.BatchNorm2d(6))
    assert uses_batch(nn.BatchNorm2d(6, track_running_stats=False).eval())
    assert not uses_batch(nn.BatchNorm2d(6).eval())
    assert not uses_batch(None)
    assert not uses_batch(_Frozen(nn.BatchNorm2d(6)))
