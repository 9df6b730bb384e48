"""Corners that once gave a wrong or non-finite result, each with what must hold."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

import scalednl
from scalednl.attentions import ATTENTIONS
from scalednl.ops.layout import pixel_rows
from scalednl.ops.planner import Choice
from scalednl.ops.views import apply_view, split_heads
from scalednl.options import VIEWS, Attention, View, orders_of
from tests.support import assert_close, assert_close_all, force, randomise, with_gradients

FOLDED = Choice("gram", True)


def test_an_empty_batch_leaves_statistics_alone() -> None:
    """Training on no images neither fails nor writes NaN into the running statistics."""
    block = force(scalednl.NonLocal2d(8), FOLDED)
    block(torch.randn(2, 8, 6, 6))
    before = {name: buffer.clone() for name, buffer in block.named_buffers()}
    assert block(torch.zeros(0, 8, 6, 6)).shape == (0, 8, 6, 6)
    for name in ("norm.running_mean", "norm.running_var"):
        assert torch.equal(block.get_buffer(name), before[name])


def test_a_branch_that_is_zero_has_no_negative_variance() -> None:
    """Where u is 0 but for rounding, the folded norm stays finite."""
    block = force(scalednl.NonLocal2d(16, norm_init=1.0), FOLDED)
    with torch.no_grad():
        block.theta.weight -= block.theta.weight.mean(1, keepdim=True)
    x = 10 * torch.randn(2, 1, 64, 64).expand(2, 16, 64, 64).contiguous()
    assert torch.isfinite(block(x)).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tiles", [1, 2])
def test_moments_ignore_autocast(dtype: torch.dtype, tiles: int) -> None:
    """Collected under autocast, moments are summed in float32 and do not overflow."""
    x = torch.randn(1, 8, 256, 256) + 1
    block = randomise(scalednl.NonLocal2d(8, heads=2)).eval()
    exact = scalednl.Moments().update(x)
    moments = scalednl.Moments()
    with torch.autocast("cpu", dtype=dtype):
        for tile in x.chunk(tiles, 2):
            moments.update(tile)
        block.apply_moments(x, moments)
    assert moments.scatter is not None
    assert exact.scatter is not None
    assert moments.scatter.dtype == torch.float32
    assert_close(moments.scatter, exact.scatter, 1e-5)


@pytest.mark.parametrize(
    "options",
    [{"view": "magnitude"}, {"order": "associative"}, {"view": "direction"}, {"attention": "mean"}],
    ids=str,
)
def test_float32_under_fp16_autocast_does_not_overflow(options: dict[str, str]) -> None:
    """A float32 x whose products autocast makes fp16 stays finite with many pixels."""
    block = scalednl.NonLocal2d(8, heads=2, norm=False, **options)  # type: ignore[arg-type]
    x = torch.randn(1, 8, 128, 128) + 1
    truth = block(x) - x
    with torch.autocast("cpu", dtype=torch.float16):
        z = block(x)
    assert_close(z.float() - x, truth, 0.02)


@pytest.mark.parametrize("size", [1e-3, 1e-4, 1.0])
def test_directions_of_short_fp16_vectors(size: float) -> None:
    """Vectors whose inverse length leaves fp16 have directions of length 1, and finite outputs."""
    torch.manual_seed(0)
    block = scalednl.NonLocal2d(16, view="direction", norm=False, init=0.01).half()
    x = (size * torch.randn(1, 16, 8, 8)).half()
    theta = split_heads(pixel_rows(block.theta(x)), 1)
    assert theta.dtype == torch.float16
    lengths = apply_view(theta, "direction").float().norm(dim=-1)
    assert (theta != 0).any(-1).all()
    assert (lengths - 1).abs().max() < 2e-3
    assert torch.isfinite(block(x)).all()


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("view", VIEWS)
def test_gradients_with_dead_pixels(attention: Attention, view: View) -> None:
    """Where theta or phi is a zero vector, every order has the gradients of the reference."""
    x = torch.randn(2, 6, 4, 5, dtype=torch.float64)
    x[0, :, 1, 1] = x[1, :, 3] = 0
    x.requires_grad_()
    grad = torch.randn_like(x)
    for order, reason in orders_of(attention, view).items():
        if reason:
            continue
        block = scalednl.NonLocal2d(
            6, heads=2, attention=attention, view=view, order=order, norm_init=1.0
        ).double()
        truth = with_gradients(None, block, x, grad)
        assert_close_all(with_gradients(block, block, x, grad), truth, 1e-10)


@pytest.mark.parametrize("view", ["direction", "magnitude"])
@pytest.mark.parametrize("order", ["associative", "quadratic"])
def test_second_derivatives_at_a_zero_vector(view: str, order: str) -> None:
    """One dead pixel gives finite second derivatives."""
    block = scalednl.NonLocal2d(8, heads=2, view=view, order=order, norm=False).double()  # type: ignore[arg-type]
    x = torch.randn(1, 8, 3, 3, dtype=torch.float64)
    x[:, :, 1, 1] = 0
    x.requires_grad_()
    (slope,) = torch.autograd.grad(block(x).square().sum(), x, create_graph=True)
    slope.square().sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    assert torch.isfinite(block.theta.weight.grad).all()  # type: ignore[arg-type]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("order", ["auto", "gram", "associative", "quadratic"])
@pytest.mark.parametrize("name", ["theta", "out"])
def test_convolutions_of_another_kind_are_called(name: str, order: str, training: bool) -> None:
    """A 3x3 convolution in the place of a 1x1 one is applied as such, on any map, in any mode."""
    block = scalednl.NonLocal2d(8, heads=2, norm_init=1.0, order=order)  # type: ignore[arg-type]
    setattr(block, name, nn.Conv2d(8, 8, 3, padding=1, bias=False))
    block.train(training)
    x = torch.randn(2, 8, 3, 3)
    theta, phi, g = (
        m(x).flatten(2).unflatten(1, (2, 4)) for m in (block.theta, block.phi, block.g)
    )
    y = (g @ (phi.mT @ theta)).flatten(1, 2).view_as(x) / (9 * 4) ** 0.5
    norm = copy.deepcopy(block.norm)
    assert norm is not None
    assert_close(block(x), x + norm(block.out(y)), 1e-5)


def test_a_patched_forward_is_called() -> None:
    """An instance whose forward was replaced, as offloading libraries do, is called."""
    block = scalednl.NonLocal2d(8, norm=False)
    block.g.forward = lambda x: 0 * x
    x = torch.randn(2, 8, 16, 16)
    assert torch.equal(block(x), x)


def test_a_bias_of_out_alone_reaches_the_statistics() -> None:
    """A block given an out with a bias learns its running mean and gives it a gradient."""
    block = scalednl.NonLocal2d(8, norm_init=1.0)
    block.out = nn.Conv2d(8, 8, 1)
    nn.init.constant_(block.out.bias, 3.0)  # type: ignore[arg-type]
    assert not block.plan((4, 8, 32, 32)).fold
    apart = copy.deepcopy(block)
    apart.order = "associative"
    for _ in range(3):
        x = torch.randn(4, 8, 32, 32)
        assert_close(block(x), apart(x), 1e-5)
    for ours, truth in zip(block.buffers(), apart.buffers(), strict=True):
        assert_close(ours, truth, 1e-5)
    block(x).sum().backward()
    assert block.out.bias is not None
    assert block.out.bias.grad is not None


class _Renaming(scalednl.NonLocal2d):
    """A block that reads an older name of a weight, through a load hook."""

    def __init__(self) -> None:
        super().__init__(8)
        self.register_load_state_dict_pre_hook(self._rename)  # type: ignore[no-untyped-call]

    @staticmethod
    def _rename(_module: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
        state[f"{prefix}theta.weight"] = state.pop(f"{prefix}conv_theta.weight")


def test_load_hooks_may_rename_weights() -> None:
    """A pre-hook that renames a child's key works as in any module."""
    state = scalednl.NonLocal2d(8).state_dict()
    weight = state.pop("theta.weight")
    state["conv_theta.weight"] = weight
    block = _Renaming()
    block.load_state_dict(state)
    assert torch.equal(block.theta.weight, weight)


class _Zero(nn.BatchNorm2d):
    """A batch norm that is not one."""

    def forward(self, x: Tensor) -> Tensor:
        """0."""
        return 0 * x


def test_moments_stand_in_only_for_plain_batch_norm() -> None:
    """A subclass is refused; SyncBatchNorm in training needs moments of all ranks."""
    x = torch.randn(2, 8, 4, 4)
    moments = scalednl.Moments().update(x)
    block = scalednl.NonLocal2d(8)
    block.norm = _Zero(8)
    with pytest.raises(ValueError, match="needs plain batch norm or none"):
        block.apply_moments(x, moments)
    block.norm = nn.SyncBatchNorm(8)
    with pytest.raises(ValueError, match=r"all_reduce\(\) them"):
        block.apply_moments(x, moments)
    assert_close(block.eval().apply_moments(x, moments), block(x), 1e-5)


def test_the_plan_is_what_runs() -> None:
    """plan(training=...) is the plan of that mode, and folding is only claimed where it happens."""
    shape = (8, 64, 64, 64)
    block = scalednl.NonLocal2d(64)
    assert block.plan(shape).fold
    asked = block.plan(shape, training=False)
    assert asked.choice == copy.deepcopy(block).eval().plan(shape).choice
    assert asked.multiply_adds == copy.deepcopy(block).eval().plan(shape).multiply_adds
    assert block.eval().plan(shape, training=True).fold
    block.train()
    assert isinstance(block.norm, _BatchNorm)
    block.norm.eval()
    assert not block.plan(shape).fold
    assert not block.plan(shape, training=True).fold
    for norm in (nn.GroupNorm(4, 64), nn.SyncBatchNorm(64), nn.Identity()):
        block.norm = norm.train()
        assert not block.plan(shape).fold


def test_what_the_order_rests_on_cannot_be_reassigned() -> None:
    """Assigning another attention to a block is refused, and says what to do instead."""
    block = scalednl.NonLocal2d(8)
    with pytest.raises(AttributeError, match=r"attention is fixed.*load this one's state_dict"):
        block.attention = "softmax"
    block.attention = "scaled"
    softmax = scalednl.NonLocal2d(8, attention="softmax")
    for value in (5.0, "learned"):
        with pytest.raises(AttributeError, match="softmax_scale is fixed"):
            softmax.softmax_scale = value


def test_schedules_follow_the_dtype() -> None:
    """After .bfloat16() the plan counts two bytes, and forward follows that plan."""
    block = scalednl.NonLocal2d(64, memory="lean").bfloat16()
    plan = block.plan((2, 64, 4, 4))
    kept = {o.choice: o.cost.bytes_kept for o in plan.options if o.cost is not None}
    assert kept[plan.choice] == min(kept.values())
    assert block.choice((2, 64, 4, 4)) == plan.choice


def test_help_and_types_speak() -> None:
    """The public classes document every option; a plan shows as its table."""
    for kind in (scalednl.NonLocal1d, scalednl.NonLocal2d, scalednl.NonLocal3d):
        assert kind.__doc__ is not None
        for option in ("attention:", "softmax_scale:", "memory:", "key_pool:"):
            assert option in kind.__doc__
    assert "> gram" in repr(scalednl.NonLocal2d(64).plan((2, 64, 32, 32)))


def test_one_block_at_two_sizes_goes_backward() -> None:
    """Called on a small and a large map in one graph, the norm apart once and folded once."""
    block = scalednl.NonLocal2d(8, heads=2, order="gram", norm_init=1.0).double()
    small, large = (torch.randn(2, 8, side, side, dtype=torch.float64) for side in (6, 20))
    twin = copy.deepcopy(block)
    (block(small).square().sum() + block(large).square().sum()).backward()
    twin(small).square().sum().backward()
    twin(large).square().sum().backward()
    for parameter, other in zip(block.parameters(), twin.parameters(), strict=True):
        assert parameter.grad is not None
        assert other.grad is not None
        assert_close(parameter.grad, other.grad, 1e-12)
    for buffer, same in zip(block.buffers(), twin.buffers(), strict=True):
        assert torch.equal(buffer, same)
