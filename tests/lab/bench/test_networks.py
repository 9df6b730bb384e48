"""The networks of Table 3 as steps."""

import pytest
import torch

from scalednl.blocks import NonLocal2d
from scalednl.lab.bench.blocks import AssociativeRows
from scalednl.lab.bench.networks import PLAIN, Variant, images, training_iteration
from scalednl.lab.counting import multiply_adds


def test_every_variant_has_the_same_weights() -> None:
    """Backbones are those of the network without blocks, blocks those of the same heads."""
    plain = PLAIN.network().state_dict()
    first, *others = (Variant(name, 4).network() for name in ("auto", "softmax plain"))
    assert plain.keys() < first.state_dict().keys()
    for other in others:
        for name, value in other.state_dict().items():
            assert torch.equal(value, first.state_dict()[name]), name
            assert name not in plain or torch.equal(value, plain[name]), name


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        (PLAIN, "no blocks"),
        (Variant("auto", 1), "auto, 1 head"),
        (Variant("auto", 4), "auto, 4 heads"),
    ],
)
def test_a_variant_in_words(variant: Variant, said: str) -> None:
    """Without blocks there are no heads."""
    assert str(variant) == said


def test_a_variant_has_three_blocks_of_its_method() -> None:
    """Options reach all of them; rows are a class of their own."""
    network = Variant("associative, rows", 2).network()
    blocks = [module for module in network.modules() if isinstance(module, NonLocal2d)]
    assert [type(block) for block in blocks] == [AssociativeRows] * 3
    assert {(block.heads, block.order) for block in blocks} == {(2, "associative")}


def test_an_iteration_is_forward_backward_and_update() -> None:
    """Three times the products of the forward pass, but for the input's gradient of the stem."""
    x, _ = images(2)
    network = PLAIN.network().eval()
    with torch.no_grad():
        forward = multiply_adds(lambda: network(x))
    stem = 2 * 16 * 3 * 9 * 32 * 32
    assert multiply_adds(training_iteration(PLAIN, 2)) == 3 * forward - stem
