"""Counts of multiply-adds and kept bytes are what torch executes and keeps, in every order."""

from typing import Any

import pytest
import torch
from torch import Tensor

import scalednl
from scalednl.attentions import ATTENTIONS
from scalednl.lab.counting import bytes_kept, multiply_adds
from scalednl.ops.costs import MIRRORED, BlockState, cost
from scalednl.ops.planner import Choice
from scalednl.options import CENTERS, VIEWS, orders_of
from tests.support import (
    LAYOUTS,
    assert_close_all,
    force,
    laid_out,
    randomise,
    with_gradients,
)

CHANNELS, SPACE = 16, (6, 8)

Options = dict[str, object]


def _cases() -> list[tuple[Options, Choice]]:
    """Every order that any attention, view and pooling admits, folded or not, lean or not."""
    cases: list[tuple[Options, Choice]] = []
    for attention in ATTENTIONS:
        for view in VIEWS:
            for pool in (None, "before", "after"):
                options = {"attention": attention, "view": view, "key_pool": pool}
                for order, reason in orders_of(attention, view, key_pool=pool).items():
                    if not reason:
                        cases.append((options, Choice(order, False)))  # type: ignore[arg-type]
    for memory in ("auto", "lean"):
        for fold in (False, True):
            cases.append(({"memory": memory, "heads": 2}, Choice("gram", fold)))
        cases.append(({"memory": memory, "norm": False}, Choice("gram", False)))
    for folded in (("theta", "phi", "g"), ("theta",), ("g",)):
        cases.append(({"bias": folded, "heads": 2, "embed_channels": 8}, Choice("gram", True)))
    for order in ("gram", "associative"):
        cases.append(({"bias": True, "embed_channels": 8}, Choice(order, False)))
        cases.append(({"embed_channels": 4}, Choice(order, False)))
        for names in (("theta", "phi", "g"), ("phi",), ("g", "out"), ("out",)):
            cases.append(({"bias": names}, Choice(order, False)))
            cases.append(({"bias": names, "key_pool": "before"}, Choice(order, False)))
    for order in ("gram", "associative", "quadratic"):
        cases.append(({"key_pool": "before", "key_pool_size": 4}, Choice(order)))
    for size in (3, (1, 3)):
        cases.append(({"key_pool": "after", "key_pool_size": size}, Choice("associative")))
    cases.append(
        ({"key_pool": "before", "key_pool_size": (5, 1), "view": "magnitude"}, Choice("rank_one"))
    )
    for center in CENTERS:
        for view in VIEWS:
            for order, reason in orders_of("scaled", view).items():
                if not reason:
                    cases.append(({"center": center, "view": view}, Choice(order)))
        for bias in (False, ("theta", "phi", "g")):
            cases.append(({"center": center, "bias": bias}, Choice("gram", True)))
        cases.append(({"center": center, "bias": True}, Choice("gram")))
        cases.append(({"center": center, "memory": "lean"}, Choice("gram", True)))
    return cases


def _name(value: object) -> str:
    if isinstance(value, bool):
        return "training" if value else "evaluation"
    if isinstance(value, Choice):
        return str(value)
    assert isinstance(value, dict)
    return "-".join(f"{v}" for v in value.values())


def _block(options: Options, choice: Choice) -> scalednl.NonLocal2d:
    block = scalednl.NonLocal2d(CHANNELS, norm_init=1.0, **options)  # type: ignore[arg-type]
    return force(block, choice)


def _planned(
    block: scalednl.NonLocal2d, choice: Choice, training: bool = True, **given: Any
) -> tuple[int, int]:
    """Multiply-adds and bytes kept for one image, as the plan has them."""
    plan = block.plan((1, CHANNELS, *SPACE), training=training, **given)
    found = next(option.cost for option in plan.options if option.choice == choice)
    assert found is not None
    return found.multiply_adds, found.bytes_kept


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("options", "choice"), _cases(), ids=_name)
def test_bytes_kept_are_exact(options: Options, choice: Choice, layout: str) -> None:
    """Each further image keeps as many bytes for backward as the plan says, to the byte."""
    block = _block(options, choice)
    few, many = (
        bytes_kept(block, laid_out(torch.randn(batch, CHANNELS, *SPACE), layout))
        for batch in (2, 5)
    )
    assert (many - few) / 3 == _planned(block, choice)[1]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("options", "choice", "training"),
    [
        (*case, training)
        for case in _cases()
        for training in (True, False)
        if case[1].order != "fused" and (training or not case[1].fold)
    ],
    ids=_name,
)
def test_multiply_adds_are_exact(
    options: Options, choice: Choice, training: bool, layout: str
) -> None:
    """Forward, and in training backward, multiply as often as the plan says."""
    block = _block(options, choice).train(training)
    x = laid_out(torch.randn(3, CHANNELS, *SPACE), layout)

    def step() -> None:
        z = block(x)
        if training:
            z.backward(torch.ones_like(z))

    assert multiply_adds(step) == 3 * _planned(block, choice, training)[0]


def _cases_with(other_keys: bool) -> list[tuple[Options, Choice]]:
    """The cases that a mask, or other keys, can go with."""
    return [
        (options, choice)
        for options, choice in _cases()
        if not (choice.fold if other_keys else options.get("key_pool"))
    ]


@pytest.mark.parametrize(
    ("options", "choice", "other_keys"),
    [(*case, other) for other in (False, True) for case in _cases_with(other)],
    ids=_name,
)
def test_costs_with_a_mask_or_other_keys(
    options: Options, choice: Choice, other_keys: bool
) -> None:
    """Multiply-adds are exact, and so are bytes but for a few per pixel of the mask."""
    block = _block(options, choice)

    def inputs(batch: int) -> tuple[Tensor, dict[str, Tensor]]:
        x = laid_out(torch.randn(batch, CHANNELS, *SPACE), "channels_last")
        if not other_keys:
            return x, {"mask": torch.rand(batch, *SPACE) > 0.3}
        return x, {"keys": laid_out(torch.randn(batch, CHANNELS, 5, 4), "channels_last")}

    given = {"key_shape": (1, CHANNELS, 5, 4)} if other_keys else {"masked": True}
    adds, kept = _planned(block, choice, **given)
    few, many = (bytes_kept(block, x, **named) for x, named in (inputs(2), inputs(5)))
    slack = 0 if other_keys else 14 * SPACE[0] * SPACE[1] + 16
    assert kept <= (many - few) / 3 <= kept + slack
    if choice.order == "fused":
        return
    x, named = inputs(3)

    def step() -> None:
        z = block(x, **named)
        z.backward(torch.ones_like(z))

    assert multiply_adds(step) == 3 * adds


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"heads": 2},
        {"memory": "lean"},
        {"key_pool": "before"},
        {"bias": ("theta", "phi")},
        {"center": "keys"},
        {"center": "keys+mean"},
    ],
    ids=_name,
)
def test_many_channels(options: Options, training: bool) -> None:
    """Values and gradients are the reference's, and multiply-adds exact, where S is mirrored."""
    channels, space = MIRRORED + 4, (4, 5)
    block = scalednl.NonLocal2d(channels, norm_init=1.0, **options)  # type: ignore[arg-type]
    block = randomise(block).double().train(training)
    x = torch.randn(2, channels, *space, dtype=torch.float64, requires_grad=True)
    grad = torch.randn_like(x)
    plan = block.plan((1, channels, *space), training=training)
    for option in plan.options:
        if option.cost is None or option.choice.order != "gram":
            continue
        force(block, option.choice)
        truth = with_gradients(None, block, x, grad)
        assert_close_all(with_gradients(block, block, x, grad), truth, 1e-8)

        def step() -> None:
            if training:
                block(x).backward(grad)
            else:
                with torch.no_grad():
                    block(x)

        assert multiply_adds(step) == 2 * option.cost.multiply_adds


def test_the_hand_written_backward_has_five_pixel_products() -> None:
    """The cost of one more pixel in training is 5 C^2 multiply-adds, folded or not."""
    s = BlockState(64, 64, 4)
    for fold in (False, True):
        few, many = (cost("gram", fold, s, n, n).multiply_adds for n in (1000, 1001))
        assert many - few == 5 * 64 * 64
    few, many = (cost("associative", False, s, n, n).multiply_adds for n in (1000, 1001))
    assert many - few == 12 * 64 * 64 + 6 * 64 * 64 // 4
