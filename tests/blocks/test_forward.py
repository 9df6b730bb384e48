"""The block as a function of its parts: its state, order, options, projections and keys."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import scalednl
from scalednl import functional
from scalednl.blocks.folding import Pointwise
from scalednl.blocks.forward import (
    Parts,
    block_state,
    choice_of,
    embed,
    forward,
    key_space,
    plan_of,
    pool,
    pool_kernel,
)
from scalednl.ops.costs import BlockState
from scalednl.ops.planner import Choice
from scalednl.options import KeyPool, PoolSize
from tests.support import assert_close, randomise, reference_block

OPTIONS: dict[str, Any] = {
    "heads": 2,
    "attention": "scaled",
    "view": "base",
    "scale": True,
    "softmax_scale": None,
    "center": None,
    "reference_pixels": None,
}


def _block() -> scalednl.NonLocal2d:
    return randomise(scalednl.NonLocal2d(6, heads=2, bias=True).double())


def _parts(block: scalednl.NonLocal2d, plain: bool) -> Parts:
    """The parts of a block as modules, or as plain weights."""
    convs = (block.theta, block.phi, block.g, block.out)
    if not plain:
        return Parts(block.theta, block.phi, block.g, block.out, block.norm)
    theta, phi, g, out = (Pointwise(conv.weight, conv.bias) for conv in convs)
    return Parts(theta, phi, g, out, block.norm)


@pytest.mark.parametrize("plain", [True, False], ids=["weights", "modules"])
@pytest.mark.parametrize("order", ["gram", "associative", "quadratic"])
def test_parts_are_modules_or_weights(order: str, plain: bool) -> None:
    """Both give the reference's block."""
    block = _block().eval()
    x = torch.randn(2, 6, 4, 5, dtype=torch.float64)
    choice = Choice(order)  # type: ignore[arg-type]
    pooling: dict[str, Any] = {"key_pool": None, "kernel": (1, 1)}
    z = forward(x, _parts(block, plain), choice, **pooling, memory="auto", **OPTIONS)
    assert_close(z, reference_block(block, x), 1e-10)


def test_the_state_describes_the_parts() -> None:
    """Biases, a norm that folds, replaced modules and the dtype are seen as they are now."""
    block = _block()

    def state(parts: Parts, training: bool = True) -> BlockState:
        fixed: dict[str, Any] = {"kernel": (1, 1), "memory": "auto", "training": training}
        return block_state(parts, (6, 6), 2, "scaled", "base", None, **fixed)

    found = state(_parts(block, False))
    assert found == state(_parts(block, True)) == block.state()
    assert found.biased == ("theta", "phi", "g", "out")
    assert (found.itemsize, found.plain, found.folds) == (8, True, True)
    block.eval()
    assert not state(_parts(block, False), False).batch_norm
    other = _parts(block, False)._replace(theta=nn.Identity(), norm=None)
    found = state(other)
    assert not found.plain
    assert not found.batch_norm
    assert found.biased == ("phi", "g", "out")


def test_the_factor_is_that_of_the_keys() -> None:
    """1/sqrt(N d) for a number, one per image for a tensor, and never that of no keys."""
    parts = _parts(_block(), True)
    assert parts.projections(OPTIONS, 12).factor == pytest.approx((12 * 3) ** -0.5)
    found = parts.projections(OPTIONS, torch.tensor([12.0, 0.0])).factor
    assert isinstance(found, Tensor)
    assert_close(found, torch.tensor([(12 * 3) ** -0.5, 3**-0.5]), 1e-6)
    reference = parts.projections({**OPTIONS, "reference_pixels": 48.0}, 12).factor
    assert reference == pytest.approx((48 / 3) ** 0.5 / 12)
    assert parts.projections({**OPTIONS, "attention": "mean"}, 12).factor == pytest.approx(1 / 12)


@pytest.mark.parametrize("kernel", [(2, 2), (3, 3), (1, 4)])
@pytest.mark.parametrize("when", ["before", "after"])
def test_keys_are_pooled_before_or_after(when: str, kernel: tuple[int, ...]) -> None:
    """The maximum of x is embedded, or the maximum of the embedding is taken."""
    block = _block()
    x, keys = torch.randn(2, 2, 6, 4, 6, dtype=torch.float64)
    _, phi, g = embed(x, _parts(block, False), when, kernel, keys)  # type: ignore[arg-type]
    for found, conv in ((phi, block.phi), (g, block.g)):
        before = conv(F.max_pool2d(keys, kernel))
        assert_close(found, before if when == "before" else F.max_pool2d(conv(keys), kernel), 1e-12)
    assert phi.shape[2:] == pool(x, kernel).shape[2:] == key_space((4, 6), kernel)


def test_a_size_is_that_of_space_and_never_of_time() -> None:
    """A number leaves time as it is; a tuple has a number for every axis; None pools nothing."""
    assert [pool_kernel("after", 3, dims) for dims in (1, 2, 3)] == [(3,), (3, 3), (1, 3, 3)]
    assert pool_kernel("before", (2, 3, 4), 3) == (2, 3, 4)
    assert pool_kernel(None, 2, 3) == (1, 1, 1)
    with pytest.raises(
        ValueError,
        match=r"^key_pool_size=\(2, 2\) must have one number for each axis of \(time, height, "
        r"width\), or be a number alone",
    ):
        pool_kernel("after", (2, 2), 3)


def test_maps_too_small_to_pool() -> None:
    """They are refused with their sizes and the kernel."""
    with pytest.raises(
        ValueError, match=r"pools by \(2, 2\), which a map of \(1, 6\) is too small"
    ):
        key_space((1, 6), (2, 2))
    assert key_space((3, 5, 7), (1, 2, 2)) == (3, 2, 3)
    assert key_space((1, 6), (1, 1)) == (1, 6)


def test_other_keys_are_planned_with_their_number() -> None:
    """The plan counts queries and keys apart; gram is not folded, the norm's pixels being x's."""
    block = scalednl.NonLocal2d(64)
    plan = block.plan((1, 64, 32, 32), key_shape=(1, 64, 128, 128))
    assert (plan.pixels, plan.keys) == (1024, 16384)
    assert "16384 keys" in str(plan)
    assert plan.choice == block.choice((1, 64, 32, 32), (1, 64, 128, 128)) == Choice("gram")
    few = block.plan((1, 64, 2, 2), key_shape=(1, 64, 1, 2))
    assert few.order == "quadratic"


@pytest.mark.parametrize(
    ("pool", "size", "ratio"),
    [(None, 2, 1), ("before", 2, 4), ("after", 2, 4), ("before", (4, 3), 12)],
)
@pytest.mark.parametrize("key_shape", [None, (2, 16, 12, 21)])
def test_the_plan_counts_pooled_keys(
    pool: KeyPool | None, size: PoolSize, ratio: int, key_shape: tuple[int, ...] | None
) -> None:
    """Queries are those of x; keys are those of the map that is attended to, pooled."""
    block = scalednl.NonLocal2d(16, key_pool=pool, key_pool_size=size)
    state = block.state(other_keys=key_shape is not None)
    plan = plan_of(state, "auto", (2, 16, 8, 6), key_shape)
    pixels = 48 if key_shape is None else 12 * (20 if size == 2 and pool else 21)
    assert (plan.batch, plan.pixels, plan.keys) == (2, 48, pixels // ratio)
    assert plan.choice == choice_of(state, "auto", (2, 16, 8, 6), key_shape)


def test_the_planned_choice_runs() -> None:
    """Forward takes the order that `choice` names, with other keys and masks too."""
    block = scalednl.NonLocal2d(8, heads=2, order=Choice("gram", True))
    shape, key_shape = torch.Size((2, 8, 6, 6)), (2, 8, 9, 5)
    assert block.choice(shape) == Choice("gram", True)
    assert block.choice(shape, masked=True) == Choice("gram", True)
    assert block.choice(shape, key_shape) == Choice("gram"), "other keys are not folded"
    called = []
    block.g.register_forward_hook(lambda *_: called.append(True))
    assert block.choice(shape, key_shape).order in ("associative", "quadratic")
    block(torch.randn(shape), keys=torch.randn(key_shape))
    assert called


ATTENTION_OPTIONS: list[dict[str, Any]] = [
    {},
    {"attention": "softmax"},
    {"attention": "softmax", "softmax_scale": "channels"},
    {"attention": "softmax", "softmax_scale": 3},
    {"attention": "softmax", "softmax_scale": "learned"},
    {"center": "keys+mean", "view": "direction"},
    {"reference_pixels": 11},
    {"reference_pixels": "running"},
]


@pytest.mark.parametrize("options", ATTENTION_OPTIONS, ids=str)
def test_functional_attention_with_them_is_the_blocks(options: dict[str, Any]) -> None:
    """y of functional.nonlocal_attention goes through out to the block's branch."""
    block = randomise(scalednl.NonLocal2d(8, heads=2, norm=False, **options)).double()
    x = torch.randn(2, 8, 3, 5, dtype=torch.float64)
    block(x)
    block.eval()
    y = functional.nonlocal_attention(*block.embed(x), **block.attention_options())
    assert_close(x + block.out(y), block(x), 1e-10)


def test_the_temperature_is_the_one_of_now() -> None:
    """1/sqrt(C) by name, a number as it is, and a learned one as a tensor with a gradient."""
    channels = scalednl.NonLocal2d(16, attention="softmax", softmax_scale="channels")
    assert channels.attention_options()["softmax_scale"] == 0.25
    learned = scalednl.NonLocal2d(16, attention="softmax", softmax_scale="learned")
    assert learned.log_softmax_scale is not None
    with torch.no_grad():
        learned.log_softmax_scale.fill_(math.log(5))
    found = learned.attention_options()["softmax_scale"]
    assert_close(found, torch.full((4,), 5.0), 1e-6)
    assert found.requires_grad


def test_the_running_number_counts_in_evaluation_alone() -> None:
    """In training the reference is the map itself."""
    block = scalednl.NonLocal2d(8, reference_pixels="running")
    block(torch.randn(2, 8, 4, 5))
    assert block.attention_options()["reference_pixels"] is None
    assert float(block.eval().attention_options()["reference_pixels"]) == 20
