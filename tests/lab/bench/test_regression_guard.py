"""What three blocks add to PreResNet-56, counted: this must not creep up."""

from functools import lru_cache

import pytest

from scalednl.blocks import NonLocal2d
from scalednl.lab.bench.networks import PLAIN, Variant, images, training_iteration
from scalednl.lab.counting import bytes_kept, multiply_adds

BATCH, BLOCKS, SHAPE = 2, 3, (128, 16, 16)
AUTO = Variant("auto", 4)
LEAN = Variant("auto, lean", 4)
ASSOCIATIVE = Variant("associative", 4)


@lru_cache
def _extra(variant: Variant) -> tuple[int, int]:
    """Multiply-adds of a training step and bytes kept, beyond the network without blocks."""
    x, _ = images(BATCH)
    with_blocks, without = (
        (multiply_adds(training_iteration(v, BATCH)), bytes_kept(v.network(), x))
        for v in (variant, PLAIN)
    )
    return with_blocks[0] - without[0], with_blocks[1] - without[1]


@pytest.mark.parametrize(
    ("variant", "adds", "kept"),
    [
        (AUTO, 239_075_328, 2_365_440),
        # Folded batch norm keeps one number per block: the scale that avoids overflow.
        (LEAN, 290_390_016, 1_185_792 + 4 * BLOCKS),
        (ASSOCIATIVE, 339_738_624, 4_823_040),
    ],
    ids=lambda value: str(value) if isinstance(value, Variant) else "",
)
def test_the_cost_of_three_blocks_is_what_it_was(variant: Variant, adds: int, kept: int) -> None:
    """Exactly these multiply-adds and bytes for two images; a change is made here on purpose."""
    assert _extra(variant) == (adds, kept)


def test_the_plan_of_a_block_is_what_the_network_does() -> None:
    """The network's extra multiply-adds are three times the plan of one block."""
    network = AUTO.network()
    block = next(module for module in network.modules() if isinstance(module, NonLocal2d))
    assert _extra(AUTO)[0] == BLOCKS * block.plan((BATCH, *SHAPE)).multiply_adds


def test_the_goals_that_can_be_counted_are_met() -> None:
    """Bytes kept at most 0.50 of the associative form's, lean 0.30; products at most 0.74."""
    auto, lean, associative = (_extra(variant) for variant in (AUTO, LEAN, ASSOCIATIVE))
    assert auto[0] <= 0.74 * associative[0]
    assert auto[1] <= 0.50 * associative[1]
    assert lean[1] <= 0.30 * associative[1]
