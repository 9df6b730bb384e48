"""Choices and plans of a block for the shapes of its inputs."""

import pytest
import torch

import scalednl
from scalednl.blocks.planning import check_planned, choice_of, plan_of
from scalednl.ops.planner import Choice


def test_other_keys_are_planned_with_their_number() -> None:
    """The plan counts queries and keys apart; gram is not folded, the norm's pixels being x's."""
    block = scalednl.NonLocal2d(64)
    plan = block.plan((1, 64, 32, 32), key_shape=(1, 64, 128, 128))
    assert (plan.pixels, plan.keys) == (1024, 16384)
    assert "16384 keys" in str(plan)
    assert plan.choice == block.choice((1, 64, 32, 32), (1, 64, 128, 128)) == Choice("gram")
    few = block.plan((1, 64, 2, 2), key_shape=(1, 64, 1, 2))
    assert few.order == "quadratic"


@pytest.mark.parametrize("pool", [None, "before", "after"])
@pytest.mark.parametrize("key_shape", [None, (2, 16, 12, 20)])
def test_the_plan_counts_pooled_keys(pool: str | None, key_shape: tuple[int, ...] | None) -> None:
    """Queries are those of x; keys are those of the map that is attended to, pooled by 2 x 2."""
    block = scalednl.NonLocal2d(16, key_pool=pool)  # type: ignore[arg-type]
    state = block.state(other_keys=key_shape is not None)
    plan = plan_of(state, "auto", (2, 16, 8, 6), key_shape)
    pixels = 48 if key_shape is None else 240
    assert (plan.batch, plan.pixels, plan.keys) == (2, 48, pixels // (4 if pool else 1))
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


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        (
            (2, 8, 4, 0),
            r"plan takes the shape of an input, such as x.shape, but got \(2, 8, 4, 0\)",
        ),
        ((2, 8, 4, 1.5), r"but got \(2, 8, 4, 1.5\)"),
        ((2, 8, 4), "takes .batch, channels, height, width., but got 3 axes"),
        ((2, 4, 4, 8), r"got 4 channels: shape \(2, 4, 4, 8\); it takes"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_shapes_that_cannot_be_planned(shape: tuple[int, ...], sentence: str) -> None:
    """They are refused as an input of that shape would be, for x and for keys."""
    with pytest.raises(ValueError, match=sentence):
        check_planned("NonLocal2d", shape, 8, 2)
    with pytest.raises(ValueError, match=sentence):
        scalednl.NonLocal2d(8).plan((2, 8, 4, 4), key_shape=shape)
