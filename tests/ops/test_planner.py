"""The planner's choice follows from the costs, and its plan explains it."""

from typing import Any

import pytest

import scalednl
from scalednl.ops.costs import CPU, BlockState, cost
from scalednl.ops.planner import LARGEST, Choice, choose, use_constants


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("memory", ["auto", "lean"])
@pytest.mark.parametrize(
    ("channels", "embed"), [(16, 16), (64, 64), (512, 512), (64, 8), (256, 32)]
)
def test_the_schedule_is_the_cheapest(
    training: bool, memory: str, channels: int, embed: int
) -> None:
    """At any number of pixels the scheduled choice has the least work, or when lean keeps least."""
    s = BlockState(channels, embed, 4, training=training, batch_norm=training, memory=memory)  # type: ignore[arg-type]
    choices = [Choice("quadratic", False), Choice("associative", False), Choice("gram", False)]
    choices += [Choice("gram", True)] if training else []
    for n in [1, 2, 3, 7, 30, 49, 100, 256, 784, 1024, 5000, 65536, LARGEST]:
        costs = {c: cost(*c, s, n, n) for c in choices}
        weights = {
            c: (found.bytes_kept if memory == "lean" else 0, found.work)
            for c, found in costs.items()
        }
        assert weights[choose(s, "auto", n)] == min(weights.values())


def test_small_maps_many_channels_and_large_maps() -> None:
    """A handful of pixels is multiplied quadratically, a large map by gram with the norm folded."""
    block = scalednl.NonLocal2d(512)
    assert block.plan((1, 512, 2, 2)).order == "quadratic"
    assert block.plan((1, 512, 14, 14)).order == "associative"
    assert block.plan((1, 512, 96, 96)).choice == Choice("gram", True)
    assert scalednl.NonLocal2d(128).plan((128, 128, 16, 16)).choice == Choice("gram", False)


def test_a_plan_prints_its_reasons() -> None:
    """Printed, a plan shows every order with its cost, the chosen one, and why not the rest."""
    block = scalednl.NonLocal2d(64)
    text = str(block.plan((32, 64, 32, 32)))
    assert "scaled attention, training: batch 32, 64 channels, 1024 pixels" in text
    chosen = next(line for line in text.splitlines() if line.startswith(">"))
    assert chosen.split()[1:4] == ["gram", "+", "norm"]
    assert "chosen: the least work" in chosen
    assert "for attention='softmax' only" in text
    block.order = "associative"
    assert "order='associative' was asked for" in str(block.plan((32, 64, 32, 32)))
    softmax = scalednl.NonLocal2d(64, attention="softmax")
    assert "complete row of A" in str(softmax.plan((32, 64, 32, 32)))


def test_the_printed_totals_are_for_the_batch() -> None:
    """plan.multiply_adds and plan.bytes_kept grow with the batch."""
    block = scalednl.NonLocal2d(64)
    one, many = block.plan((1, 64, 32, 32)), block.plan((8, 64, 32, 32))
    assert many.multiply_adds == 8 * one.multiply_adds
    assert many.bytes_kept == 8 * one.bytes_kept
    assert block.plan((8, 64, 32, 32), training=False).bytes_kept == 0


def test_constants_of_another_device_change_the_choice() -> None:
    """Where moving numbers costs more, a folded norm pays; what was used before is returned."""
    block = scalednl.NonLocal2d(64, norm_init=1.0)
    shape = (8, 64, 24, 24)
    usual = block.choice(shape)
    before = use_constants(move=1)
    try:
        cheap = block.choice(shape)
        assert use_constants(move=4096) == (1, CPU.narrow)
        dear = block.choice(shape)
        assert f"{dear}" in str(block.plan(shape)).partition(">")[2].splitlines()[0]
    finally:
        use_constants(*before)
    assert before == CPU
    assert cheap == Choice("gram") != dear == Choice("gram", True)
    assert block.choice(shape) == usual


@pytest.mark.parametrize("constants", [{"move": 0}, {"narrow": -1}, {"move": True}])
def test_constants_are_whole_numbers(constants: dict[str, Any]) -> None:
    """Others are refused by name, and nothing changes."""
    ((name, value),) = constants.items()
    with pytest.raises(ValueError, match=f"{name}={value} must be a whole number"):
        use_constants(**constants)
    assert use_constants() == CPU
