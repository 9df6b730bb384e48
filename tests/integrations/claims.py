"""What holds for blocks in every framework."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import scalednl


def blocks_of(network: nn.Module, count: int) -> list[scalednl.NonLocal2d]:
    """The blocks of a network; assert that there are `count`."""
    found = [module for module in network.modules() if isinstance(module, scalednl.NonLocal2d)]
    assert len(found) == count
    return found


def assert_started(block: scalednl.NonLocal2d, init: float, norm_init: float) -> None:
    """Assert that the weights of a new block are drawn as its options ask."""
    for conv in (block.theta, block.phi, block.g, block.out):
        assert abs(float(conv.weight.detach().std()) / init - 1) < 0.2
    assert block.norm is not None
    weight = block.norm.get_parameter("weight")
    assert torch.equal(weight, torch.full_like(weight, norm_init))


def assert_learns(network: nn.Module, loss: Tensor, count: int) -> None:
    """Assert finite gradients of every weight, and that those of the blocks are not 0."""
    assert loss.isfinite()
    loss.backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name
    for block in blocks_of(network, count):
        for name, parameter in block.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.any(), name


def assert_saved(make: Callable[[], Any], x: Tensor, count: int) -> None:
    """Assert that a state_dict carries the blocks' weights to a second network."""
    first, second = make().eval(), make().eval()
    for block in blocks_of(first, count):
        nn.init.normal_(block.norm.get_parameter("weight"))  # type: ignore[union-attr]
    second.load_state_dict(first.state_dict())
    with torch.no_grad():
        assert torch.equal(second(x), first(x))


def assert_captured(network: nn.Module, x: Tensor, count: int) -> None:
    """Assert that `capture_attention` finds every block, and a map of each."""
    with torch.no_grad(), scalednl.capture_attention(network) as captured:
        network(x)
    assert len(captured) == count
    for attention in captured:
        pixels = attention.query_size[0] * attention.query_size[1]
        assert attention.map(0, 0).shape == (pixels, pixels)
