"""The block where its users meet it: precisions, layouts, copies, checkpoints, odd tensors."""

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import scalednl
from scalednl.attentions import BUILT_IN
from scalednl.ops.planner import Choice
from scalednl.options import VIEWS, Attention, Order, View, orders_of
from tests.support import LAYOUTS, assert_close, assert_close_all, force, laid_out, randomise

CHOICES = [
    Choice("gram", True),
    Choice("gram", False),
    Choice("associative", False),
    Choice("quadratic", False),
]
HALVES = [torch.bfloat16, torch.float16]


def _block(choice: Choice, channels: int = 8) -> scalednl.NonLocal2d:
    block = scalednl.NonLocal2d(channels, heads=2, norm_init=1.0)
    return force(block, choice)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_of_x_is_kept(choice: Choice, training: bool, layout: str) -> None:
    """z has the strides of x, and so has the gradient of x for a gradient laid out alike."""
    block = _block(choice).train(training)
    x = laid_out(torch.randn(2, 8, 4, 6), layout)
    z = block(x)
    assert z.stride() == x.stride()
    (gradient,) = torch.autograd.grad(z, x, torch.randn_like(z))
    if choice.order == "gram":
        assert gradient.stride() == x.stride()


@pytest.mark.parametrize(
    ("attention", "view", "order"),
    [
        (attention, view, order)
        for attention in BUILT_IN
        for view in VIEWS
        for order, reason in orders_of(attention, view, key_pool=None).items()
        if not reason
    ],
)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_order_keeps_the_layout_of_x(
    attention: Attention, view: View, order: Order, training: bool, layout: str
) -> None:
    """Whatever the layout of the keys, so that `view` works in training where it does after it."""
    options: dict[str, Any] = {"attention": attention, "view": view, "order": order}
    block = scalednl.NonLocal2d(16, heads=2, norm_init=1.0, **options).train(training)
    x = laid_out(torch.randn(2, 16, 6, 8), layout)
    others = [laid_out(torch.randn(2, 16, 5, 4), name) for name in LAYOUTS]
    mask = torch.ones(2, 6, 8, dtype=torch.bool)
    assert block(x).stride() == x.stride()
    assert block(x, mask=mask).stride() == x.stride()
    assert [block(x, keys=keys).stride() for keys in others] == [x.stride()] * len(others)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_non_contiguous_inputs(choice: Choice, training: bool) -> None:
    """Slices, transposes, flips of strides and expanded tensors give what a copy gives."""
    block = _block(choice).double().train(training)
    base = torch.randn(3, 16, 6, 8, dtype=torch.float64)
    views = [
        base[:, ::2],
        base[:, :8, ::2, 1:7:2],
        base[:, 8:].transpose(2, 3),
        base.contiguous(memory_format=torch.channels_last)[:, 3:11],
        base[:1, :8].expand(3, -1, -1, -1),
        base[:, :8, :1, :1].expand(-1, -1, 4, 5),
    ]
    for view in views:
        assert_close(block(view), copy.deepcopy(block)(view.contiguous()), 1e-9)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_autocast(choice: Choice, dtype: torch.dtype, training: bool) -> None:
    """Under autocast a half-precision x gives z in its dtype, close to float32, gradients too."""
    block = _block(choice, 32).train(training)
    exact = copy.deepcopy(block)
    x = torch.randn(4, 32, 8, 8).to(dtype).float().requires_grad_()
    grad = torch.randn_like(x).to(dtype)
    truth = exact(x)
    slopes = torch.autograd.grad(truth, [x, *exact.parameters()], grad.float())
    half = x.detach().to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=dtype):
        z = block(half)
    assert z.dtype == dtype
    assert_close(z - half, truth - x, 0.03)
    gradients = torch.autograd.grad(z, [half, *block.parameters()], grad)
    assert [g.dtype for g in gradients[1:]] == [p.dtype for p in block.parameters()]
    for gradient, slope in zip(gradients, slopes, strict=True):
        assert_close(gradient, slope, 0.05)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_gram_is_at_least_as_exact_as_plain_operations_in_half_precision(
    dtype: torch.dtype,
) -> None:
    """Sums and the mixing matrix in float32 make gram's error no larger than associative's."""
    x = torch.randn(8, 64, 16, 16).to(dtype)
    errors = {}
    for choice in (Choice("gram", True), Choice("gram", False), Choice("associative", False)):
        block = _block(choice, 64)
        torch.manual_seed(1)
        with torch.no_grad():
            for parameter in block.parameters():
                parameter.normal_(std=0.15)
        truth = force(copy.deepcopy(block), Choice("quadratic", False)).double()(x.double())
        with torch.autocast("cpu", dtype=dtype):
            z = block(x)
        branch = truth - x.double()
        errors[choice] = ((z.double() - truth).norm() / branch.norm()).item()
    assert errors[CHOICES[0]] <= errors[CHOICES[2]]
    assert errors[CHOICES[1]] <= errors[CHOICES[2]]


@pytest.mark.parametrize("choice", [*CHOICES[:3]], ids=str)
@pytest.mark.parametrize("how", ["autocast", "half weights"])
def test_fp16_with_many_pixels_stays_finite(choice: Choice, how: str) -> None:
    """65,536 fp16 pixels with a mean, whose plain sum would leave fp16's range, do not overflow."""
    block = _block(choice, 16)
    x = (torch.randn(1, 16, 256, 256) + 2).half()
    assert torch.isinf((x.flatten(2)[0] ** 2).sum(1, dtype=torch.float32).half()).any()
    truth = copy.deepcopy(block)(x.float())
    if how == "half weights":
        z = block.half()(x)
    else:
        with torch.autocast("cpu", dtype=torch.float16):
            z = block(x)
    assert z.dtype == torch.float16
    assert_close(z.float() - x.float(), truth - x.float(), 0.05)


def test_dtypes_that_do_not_match_are_named() -> None:
    """Maps and weights of two dtypes raise and name both; autocast is advised where it helps."""
    block = scalednl.NonLocal2d(8)
    with pytest.raises(ValueError, match=r"x is torch.bfloat16 but.*torch.float32.*autocast"):
        block(torch.randn(1, 8, 4, 4, dtype=torch.bfloat16))
    for enabled in (False, True):
        with (
            torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled),
            pytest.raises(ValueError, match=r"x is torch.float64 but.*call block.to.x.dtype.$"),
        ):
            block(torch.randn(1, 8, 4, 4, dtype=torch.float64))


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_copies_and_files(choice: Choice) -> None:
    """Deep copies, pickles and torch.save round trips behave like the original."""
    block = _block(choice)
    randomise(block)
    block.eval()
    x = torch.randn(2, 8, 4, 4)
    truth = block(x)
    assert torch.equal(copy.deepcopy(block)(x), truth)
    assert torch.equal(pickle.loads(pickle.dumps(block))(x), truth)
    file = io.BytesIO()
    torch.save(block.state_dict(), file)
    file.seek(0)
    other = _block(choice).eval()
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(x), truth)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing(choice: Choice, reentrant: bool) -> None:
    """A checkpointed block gives the same output and gradients."""
    block = _block(choice)
    x = torch.randn(2, 8, 4, 4, requires_grad=True)
    results = []
    for checkpointed in (False, True):
        fresh = copy.deepcopy(block)
        z = checkpoint(fresh, x, use_reentrant=reentrant) if checkpointed else fresh(x)
        loss = z.square().sum()
        loss.backward()
        found = [x.grad, *(p.grad for p in fresh.parameters())]
        results.append((z, *(gradient for gradient in found if gradient is not None)))
        assert len(results[-1]) == 8
        x.grad = None
    assert_close_all(results[0], results[1], 1e-5)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_functional_call_and_ensembles(choice: Choice) -> None:
    """functional_call takes other weights, and vmap runs an ensemble of blocks in evaluation."""
    blocks = [randomise(_block(choice)).eval() for _ in range(3)]
    x = torch.randn(2, 8, 4, 4)
    called = torch.func.functional_call(blocks[0], dict(blocks[1].state_dict()), (x,))
    assert_close(called, blocks[1](x), 1e-5)
    parameters, buffers = torch.func.stack_module_state(blocks)

    def one(parameters: dict[str, torch.Tensor], buffers: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.func.functional_call(blocks[0], (parameters, buffers), (x,))

    together = torch.vmap(one)(parameters, buffers)
    for index, block in enumerate(blocks):
        assert_close(together[index], block(x), 1e-5)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_inference_mode_and_constant_inputs(choice: Choice) -> None:
    """inference_mode works, and a constant x in training still trains the weights."""
    block = _block(choice)
    x = torch.randn(2, 8, 4, 4)
    with torch.inference_mode():
        assert block.eval()(x).shape == x.shape
    block.train()(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in block.parameters())


class _NoWeight(nn.Module):
    """theta without parameters of its own, as a wrapper may leave it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x."""
        return x


def _without_parameters(module: nn.Module) -> nn.Module:
    """A copy whose weights are plain tensors, as in replicas of nn.DataParallel and in FSDP."""
    module = copy.deepcopy(module)
    for part in module.modules():
        for name, parameter in list(part._parameters.items()):
            del part._parameters[name]
            object.__setattr__(part, name, None if parameter is None else parameter.detach())
    return module


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_blocks_whose_parameters_a_wrapper_holds(choice: Choice, training: bool) -> None:
    """Without a single parameter of its own, a block computes, plans and refuses as before."""
    block = _block(choice).train(training)
    bare = _without_parameters(block)
    assert not list(bare.parameters())
    assert isinstance(bare, scalednl.NonLocal2d)
    x = torch.randn(2, 8, 4, 4)
    assert torch.equal(bare(x), block(x))
    assert str(bare.plan(x.shape)) == str(block.plan(x.shape))
    with pytest.raises(ValueError, match=r"x is torch.float64 but.*torch.float32"):
        bare(x.double())


def test_blocks_without_any_weight() -> None:
    """Modules without weights in the places of all convolutions are called, in any dtype."""
    block = scalednl.NonLocal2d(4, heads=1, norm=False)
    for name in ("theta", "phi", "g", "out"):
        setattr(block, name, _NoWeight())
    x = torch.randn(2, 4, 3, 3, dtype=torch.float64)
    flat = x.flatten(2)
    y = flat @ (flat.mT @ flat) / (9 * 4) ** 0.5
    assert_close(block(x), x + y.view_as(x), 1e-10)
    assert block.plan(x.shape).order != "gram"


def test_meta_tensors() -> None:
    """Shapes can be worked out without memory, on the meta device."""
    block = scalednl.NonLocal2d(8).to("meta")
    assert block(torch.empty(2, 8, 512, 512, device="meta")).shape == (2, 8, 512, 512)


def test_an_empty_batch_passes_in_evaluation() -> None:
    """A batch of no images, as detection heads make them, comes out empty."""
    block = scalednl.NonLocal2d(8).eval()
    for order in ("gram", "associative"):
        block.order = order
        assert block(torch.randn(0, 8, 4, 4)).shape == (0, 8, 4, 4)


def test_it_trains_inside_a_network() -> None:
    """A small network with a block, started at the paper's gamma 0, lowers its loss in all orders.

    All orders take the same path, because they compute the same function.
    """
    x, y = torch.randn(16, 3, 8, 8), torch.randint(0, 4, (16,))
    losses = {}
    for choice in CHOICES:
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), _block(choice), nn.Flatten(), nn.Linear(512, 4)
        )
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        path = []
        for _ in range(8):
            loss = nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            path.append(loss.detach())
        losses[choice] = torch.stack(path)
        assert path[-1] < 0.5 * path[0]
    for taken in losses.values():
        assert_close(taken, losses[CHOICES[-1]], 1e-3)
