"""No number on a red gate: what is right passes, what is wrong is not timed."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from scalednl.blocks import NonLocal2d
from scalednl.errors import CommandError
from scalednl.lab.bench.agreement import (
    network_error,
    require,
    sampled_error,
    training_error,
)
from scalednl.lab.bench.blocks import features, make_block
from scalednl.lab.bench.networks import Variant, images
from scalednl.lab.records.methods import METHODS


@pytest.mark.parametrize("method", METHODS)
def test_every_method_agrees(method: str) -> None:
    """Values and gradients in training, and sampled pixels in evaluation."""
    block = make_block(method, 16)
    x, grad = features(2, 16, 6)
    assert training_error(block, x, grad) < 1e-5
    assert sampled_error(block, x, queries=5) < 1e-6
    assert block.training


class _Wrong(NonLocal2d):
    """A block whose branch is one percent too large."""

    def forward(self, x: Tensor, **named: Any) -> Tensor:
        """Almost z."""
        return x + 1.01 * (super().forward(x, **named) - x)


@pytest.mark.parametrize("measure", [training_error, sampled_error])
def test_a_wrong_block_is_noticed(measure: Callable[..., float]) -> None:
    """It is found in training and in evaluation, and not timed; nor is one that gives NaN."""
    block = make_block("auto", 16)
    block.__class__ = _Wrong
    x, grad = features(2, 16, 6)
    error = measure(block, x, grad) if measure is training_error else measure(block, x)
    assert error > 1e-3
    with pytest.raises(CommandError, match="not timed"):
        require(error, "auto")
    with pytest.raises(CommandError, match="not timed"):
        require(float("nan"), "auto")


@pytest.mark.parametrize("method", ["associative", "associative, rows"])
def test_a_network_agrees_and_a_wrong_one_is_noticed(method: str) -> None:
    """Scores and gradients of a network are those with the literal equations in its blocks."""
    network = Variant(method, 4).network()
    assert network_error(network, *images(2)) < 1e-9
    block = next(module for module in network.modules() if isinstance(module, NonLocal2d))
    block.__class__ = _Wrong
    assert network_error(network, *images(2)) > 1e-4
