"""One block on one map: the methods that are compared, with the same weights, as steps."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scalednl.blocks import NonLocal2d
from scalednl.lab.bench.agreement import require, sampled_error, training_error
from scalednl.lab.bench.measure import Step, inference_step, training_step
from scalednl.lab.records.floor import Work
from scalednl.lab.records.methods import METHODS

LITERAL = 16
"""The side up to which gradients are compared with the complete map of the literal equations"""


class AssociativeRows(NonLocal2d):
    """The associative order as products on the (batch, pixels, channels) view, not convolutions."""

    def forward(self, x: Tensor, **_: Any) -> Tensor:
        """z, for training mode, without masks and other keys."""
        rows = x.flatten(2).transpose(1, 2)
        theta, phi, g = (
            F.linear(rows, conv.weight.flatten(1)).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for conv in (self.theta, self.phi, self.g)
        )
        context = (phi.mT @ g) * (rows.shape[1] * theta.shape[-1]) ** -0.5
        y = (theta @ context).transpose(1, 2).flatten(2)
        u = F.linear(y, self.out.weight.flatten(1)).transpose(1, 2).unflatten(2, x.shape[2:])
        assert self.norm is not None
        return x + self.norm(u)


def use_rows(network: nn.Module) -> None:
    """Make every block of a network an `AssociativeRows`."""
    for module in network.modules():
        if isinstance(module, NonLocal2d):
            module.__class__ = AssociativeRows


def make_block(method: str, channels: int, device: str = "cpu") -> NonLocal2d:
    """A block of a method; all methods have the same weights."""
    torch.manual_seed(0)
    how = METHODS[method]
    kind = AssociativeRows if how.rows else NonLocal2d
    options = {"attention": how.attention, "order": how.order, "memory": how.memory}
    return kind(channels, init="he", norm_init=1.0, **options).to(device)  # type: ignore[arg-type]


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


def block_work(block: NonLocal2d, shape: Sequence[int]) -> Work:
    """What the block must do on a float32 map of this shape at least, in its mode and order."""
    counted = block.plan(shape).multiply_adds
    return Work.of_block(counted, 4 * prod(shape), training=block.training)


def checked_error(block: NonLocal2d, x: Tensor, what: str) -> float:
    """A block's error: on x in value, on a map that is no larger in value and gradient."""
    small, grad = features(2, block.channels, min(x.shape[-1], LITERAL), str(x.device))
    error = require(training_error(block, small, grad), what)
    return max(error, require(sampled_error(block, x), what))
