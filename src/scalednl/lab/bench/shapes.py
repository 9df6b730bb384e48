"""One block on one map: the methods that are compared, with the same weights, as steps."""

from typing import Any

import torch
from torch import Tensor

from scalednl.blocks import NonLocal2d
from scalednl.lab.bench.agreement import require, sampled_error, training_error
from scalednl.lab.bench.measure import Step, inference_step, training_step

METHODS: dict[str, dict[str, Any]] = {
    "softmax plain": {"attention": "softmax", "order": "quadratic"},
    "softmax fused": {"attention": "softmax", "order": "fused"},
    "associative": {"order": "associative"},
    "auto": {"order": "auto"},
}
COLOURS = {
    "softmax plain": "red",
    "softmax fused": "purple",
    "associative": "blue",
    "auto": "green",
}
LITERAL = 16
"""The side up to which gradients are compared with the whole map of the literal equations"""


def make_block(method: str, channels: int, device: str = "cpu") -> NonLocal2d:
    """A block of a method; all methods have the same weights."""
    torch.manual_seed(0)
    block = NonLocal2d(channels, init="he", norm_init=1.0, **METHODS[method])
    return block.to(device)


def features(batch: int, channels: int, side: int, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Random channels_last maps, and a gradient of the same layout."""
    generator = torch.Generator().manual_seed(0)
    x, grad = (
        torch.randn(batch, channels, side, side, generator=generator).to(
            device=device, memory_format=torch.channels_last
        )
        for _ in range(2)
    )
    return x.requires_grad_(), grad


def block_step(method: str, channels: int, side: int, training: bool, device: str) -> Step:
    """Forward, in training with backward, of one block on one map."""
    block = make_block(method, channels, device).train(training)
    x, grad = features(1, channels, side, device)
    return training_step(block, x, grad) if training else inference_step(block, x)


def checked_error(block: NonLocal2d, x: Tensor, what: str) -> float:
    """A block's error: on x in value, on a map that is no larger in value and gradient."""
    small, grad = features(2, block.channels, min(x.shape[-1], LITERAL), x.device.type)
    error = require(training_error(block, small, grad), what)
    return max(error, require(sampled_error(block, x), what))
