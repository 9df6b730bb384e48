"""`functional.nonlocal_block`: the block's numbers from plain tensors."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

import scalednl
from scalednl.attentions import ATTENTIONS
from scalednl.blocks import NonLocalBlock
from scalednl.functional import attention_map, nonlocal_attention, nonlocal_block
from scalednl.options import CONVOLUTIONS, VIEWS, Attention, Order, orders_of
from tests.support import (
    LAYOUTS,
    assert_close,
    assert_close_all,
    laid_out,
    randomise,
    reference_block,
)

ORDERS = [
    (attention, view, pool, order)
    for attention in ATTENTIONS
    for view in VIEWS
    for pool in (None, "before", "after")
    for order, reason in orders_of(attention, view, key_pool=pool).items()
    if not reason
]


def _call(block: NonLocalBlock, x: Tensor, norm: nn.Module | None, flat: bool = False) -> Tensor:
    """The function with the weights and options of a block; `flat`: weights as matrices."""
    convs: list[_ConvNd] = [getattr(block, name) for name in CONVOLUTIONS]
    biases = {n: c.bias for n, c in zip(CONVOLUTIONS, convs, strict=True) if c.bias is not None}
    weights = [conv.weight.flatten(1) if flat else conv.weight for conv in convs]
    return nonlocal_block(
        x,
        *weights,
        biases=biases,
        norm=norm,
        order=block.order,  # type: ignore[arg-type]
        key_pool=block.key_pool,
        key_pool_size=block.key_pool_size,
        memory=block.memory,
        **block.attention_options(),
    )


def _case(options: dict[str, object], norm: str) -> NonLocalBlock:
    block = scalednl.NonLocal2d(6, heads=2, embed_channels=4, norm=norm != "none", **options)  # type: ignore[arg-type]
    return randomise(block).double().train(norm == "training")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm", ["none", "training", "evaluation"])
@pytest.mark.parametrize(("attention", "view", "pool", "order"), ORDERS)
def test_the_function_is_the_reference(
    attention: str, view: str, pool: str | None, order: str, norm: str, layout: str
) -> None:
    """Values and gradients of x and every weight are the reference's, by every order."""
    for bias in (False, ("theta", "g"), True):
        options = {"attention": attention, "view": view, "key_pool": pool, "order": order}
        block = _case({**options, "bias": bias}, norm)
        x = laid_out(torch.randn(3, 6, 4, 5, dtype=torch.float64), layout)
        grad = torch.randn_like(x)
        inputs = [x, *block.parameters()]
        truth = reference_block(block, x)
        found = _call(block, x, block.norm, flat=layout == "nchw")
        gradients = [torch.autograd.grad(z, inputs, grad) for z in (found, truth)]
        assert_close_all((found, *gradients[0]), (truth, *gradients[1]), 1e-10)


@pytest.mark.parametrize("size", [3, (1, 4)])
@pytest.mark.parametrize("pool", ["before", "after"])
def test_pools_of_other_sizes(pool: str, size: int | tuple[int, ...]) -> None:
    """Keys of x and other keys are pooled by the size that is given."""
    block = _case({"key_pool": pool, "key_pool_size": size}, "evaluation")
    x, keys = (torch.randn(2, 6, *space, dtype=torch.float64) for space in ((4, 5), (7, 6)))
    assert_close(_call(block, x, block.norm), reference_block(block, x), 1e-10)
    weights = [getattr(block, name).weight for name in CONVOLUTIONS]
    given = {"heads": 2, "key_pool": pool, "key_pool_size": size, "keys": keys}
    z = nonlocal_block(x, *weights, norm=block.norm, **given)  # type: ignore[arg-type]
    assert_close(z, reference_block(block, x, keys=keys), 1e-10)


@pytest.mark.parametrize("side", [4, 24])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("memory", ["auto", "lean"])
def test_the_function_gives_the_blocks_bits(side: int, training: bool, memory: str) -> None:
    """Left to choose the order, function and block give equal numbers and running statistics."""
    block = randomise(scalednl.NonLocal2d(8, memory=memory)).train(training)  # type: ignore[arg-type]
    norm = copy.deepcopy(block.norm)
    x = torch.randn(2, 8, side, side)
    assert torch.equal(_call(block, x, norm), block(x))
    assert norm is not None
    for ours, theirs in zip(norm.buffers(), block.norm.buffers(), strict=True):  # type: ignore[union-attr]
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(("kind", "space"), [("1d", (9,)), ("3d", (2, 4, 3))])
def test_other_dimensions_and_any_norm(kind: str, space: tuple[int, ...]) -> None:
    """1 and 3 axes of space work, and a norm may be any function of u."""
    block = randomise(getattr(scalednl, f"NonLocal{kind}")(8, norm=False))
    x = torch.randn(2, 8, *space)
    assert_close(_call(block, x, None, flat=True), block(x), 1e-6)
    weights = [getattr(block, name).weight for name in CONVOLUTIONS]
    z = nonlocal_block(x, *weights, heads=4, norm=lambda u: 3 * u)
    assert_close(z - x, 3 * (block(x) - x), 1e-4)


def test_vmap_over_an_ensemble() -> None:
    """Weights with a leading axis give one output per member."""
    blocks = [randomise(scalednl.NonLocal2d(8, norm=False)) for _ in range(3)]
    stacked = [torch.stack([getattr(b, name).weight for b in blocks]) for name in CONVOLUTIONS]
    x = torch.randn(2, 8, 20, 20)
    together = torch.func.vmap(lambda *w: nonlocal_block(x, *w, heads=4))(*stacked)
    for block, z in zip(blocks, together, strict=True):
        assert_close(z, block(x), 1e-5)


@pytest.mark.usefixtures("unchecked_shapes")
def test_what_does_not_fit_is_named() -> None:
    """Shapes, names and options that do not fit are answered with what was passed."""
    w, out, x = torch.randn(4, 8), torch.randn(8, 4), torch.randn(1, 8, 3, 3)
    with pytest.raises(ValueError, match=r"out_w is \(channels, embed\).*out_w \(4, 8\)"):
        nonlocal_block(x, w, w, w, w)
    with pytest.raises(ValueError, match=r"but got theta_w \(4, 8, 3, 3\)"):
        nonlocal_block(x, w[..., None, None].expand(4, 8, 3, 3), w, w, out)
    with pytest.raises(ValueError, match="got 5 channels"):
        nonlocal_block(x[:, :5], w, w, w, out)
    with pytest.raises(ValueError, match="but got 2 axes"):
        nonlocal_block(x[0, :, 0], w, w, w, out)
    with pytest.raises(ValueError, match=r"biases='psi' is unknown"):
        nonlocal_block(x, w, w, w, out, biases={"psi": out[:, 0]})
    with pytest.raises(ValueError, match=r"the bias of g must be \(4,\).*but got \(8,\)"):
        nonlocal_block(x, w, w, w, out, biases={"g": out[:, 0]})
    with pytest.raises(ValueError, match="heads=3 does not divide"):
        nonlocal_block(x, w, w, w, out, heads=3)
    with pytest.raises(ValueError, match="order='fused' cannot be used"):
        nonlocal_block(x, w, w, w, out, order="fused")
    with pytest.raises(ValueError, match=r"x is torch.float64 but"):
        nonlocal_block(x.double(), w, w, w, out)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"attention": "softmax", "heads": 2, "softmax_scale": torch.ones(3)},
            r"one number per head, 2, or one for all, but has shape \(3,\)",
        ),
        ({"reference_pixels": torch.ones(3)}, r"reference_pixels must be one number, but has"),
    ],
)
def test_tensors_in_the_place_of_numbers(options: dict[str, Any], sentence: str) -> None:
    """One number per head or one for all; others would change the shape of the result."""
    x, weights = torch.randn(2, 8, 4, 4), [torch.randn(8, 8) for _ in range(4)]
    calls: list[Callable[[], Tensor]] = [
        lambda: nonlocal_attention(x, x, x, **options),
        lambda: attention_map(x, x, **options),
        lambda: nonlocal_block(x, *weights, **options),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=sentence):
            call()


@pytest.mark.parametrize("training", [True, False])
def test_a_reference_that_trains_has_a_gradient_in_every_order(training: bool) -> None:
    """The hand-written backward has none, so it is not taken; weights get theirs as before."""
    weights = [torch.randn(8, 8).double() for _ in range(4)]
    x = torch.randn(2, 8, 6, 5).double()
    found = []
    for order in ("quadratic", "associative", "gram", "auto"):
        reference = torch.tensor(9.0).double().requires_grad_()
        leaves = [w.clone().requires_grad_(training) for w in weights]
        z = nonlocal_block(x, *leaves, reference_pixels=reference, order=order)
        z.square().sum().backward()
        assert reference.grad is not None
        found.append([reference.grad, *(leaf.grad for leaf in leaves if leaf.grad is not None)])
    for others in found[1:]:
        for grad, truth in zip(others, found[0], strict=True):
            assert_close(grad, truth, 1e-10)


@pytest.mark.parametrize("attention", ["scaled", "softmax"])
def test_embeddings_of_two_dtypes_are_refused(attention: Attention) -> None:
    """All are named; autocast makes one of them."""
    x = torch.randn(2, 8, 4, 4)
    with pytest.raises(ValueError, match=r"torch\.float32, torch\.float64, torch\.float32: cast"):
        nonlocal_attention(x, x.double(), x, attention=attention)
    with pytest.raises(
        ValueError,
        match=r"theta and phi must have one dtype, but have torch\.float32, torch\.float64",
    ):
        attention_map(x, x.double(), attention=attention)
    with torch.autocast("cpu", torch.bfloat16):
        assert nonlocal_attention(x, x.bfloat16(), x, attention=attention).isfinite().all()
        with pytest.raises(ValueError, match=r"float64, torch\.float32: cast them$"):
            nonlocal_attention(x, x.double(), x, attention=attention)
    with pytest.raises(ValueError, match=r"one device, but are on cpu, meta, cpu"):
        nonlocal_attention(x, x.to("meta"), x, attention=attention)


@pytest.mark.usefixtures("unchecked_shapes")
def test_embeddings_that_are_no_tensors_are_named() -> None:
    """By their type."""
    x = torch.randn(2, 8, 4, 4)
    with pytest.raises(ValueError, match="embeddings are torch tensors, but one is a NoneType"):
        nonlocal_attention(None, x, x)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["auto", "associative"])
def test_weights_of_two_dtypes_are_refused(order: Order) -> None:
    """In every order alike, and all dtypes are named; autocast makes one of them."""
    weights = [torch.randn(8, 8), torch.randn(8, 8).double(), *torch.randn(2, 8, 8)]
    x = torch.randn(2, 8, 4, 4)
    with pytest.raises(ValueError, match=r"one dtype, but have .*float32.*float64"):
        nonlocal_block(x, *weights, order=order)
    halves = [weights[0], weights[1].bfloat16(), *weights[2:]]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert nonlocal_block(x, *halves, attention="softmax").isfinite().all()
