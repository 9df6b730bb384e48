"""No number on a red gate: what is about to be timed is compared with the literal equations.

Blocks are compared with `ops.reference` in value and gradient where the complete map fits in
memory, and at a sample of query pixels, which attend to all others, where it does not.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scalednl.blocks import NonLocal2d
from scalednl.errors import CommandError
from scalednl.lab.bench.measure import relative_error
from scalednl.models.probe import evaluating
from scalednl.ops import reference

TOLERANCE = 1e-4
QUERIES = 64


def require(error: float, what: str, tolerance: float = TOLERANCE) -> float:
    """The error, if it is small enough to continue; NaN is not."""
    if not error <= tolerance:
        raise CommandError(
            f"{what} is {error:.1e} away from the paper's equations, so it is not timed: "
            "this is a bug, please report it"
        )
    return error


def reference_block(block: NonLocal2d, x: Tensor) -> Tensor:
    """What `block(x)` must be, by the literal equations, in the block's mode."""
    theta, phi, g, out = _weights(block)
    norm = block.norm
    assert isinstance(norm, nn.BatchNorm2d)
    if norm.training:
        z = reference.nonlocal_block(
            x.flatten(2),
            *(theta, phi, g, out, norm.weight, norm.bias),
            eps=norm.eps,
            heads=block.heads,
            attention=block.attention,
        )
        return z.view_as(x)
    return _evaluated(block, x.flatten(2), x.flatten(2)).view_as(x)


def training_error(block: NonLocal2d, x: Tensor, grad: Tensor) -> float:
    """The largest relative error of the output and of any gradient, in training mode."""
    inputs = [x, *block.parameters()]
    z, truth = block(x), reference_block(block, x)
    found = torch.autograd.grad(z, inputs, grad)
    expected = torch.autograd.grad(truth, inputs, grad)
    pairs = zip((z, *found), (truth, *expected), strict=True)
    return max(relative_error(value, true) for value, true in pairs)


@torch.no_grad()
def sampled_error(block: NonLocal2d, x: Tensor, queries: int = QUERIES) -> float:
    """The relative error in evaluation mode at some pixels, in float64: for maps of any size."""
    pixels = x.flatten(2)
    generator = torch.Generator().manual_seed(0)
    picked = torch.randperm(pixels.shape[2], generator=generator)[:queries].to(x.device)
    with evaluating(block):
        z = block(x).flatten(2)[..., picked]
        truth = _evaluated(block, pixels[..., picked].double(), pixels.double())
    return relative_error(z, truth)


def network_error(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The largest relative error of a network's scores and of the gradient of its loss, in float64.

    The truth is the same network with the literal equations in the place of its blocks. In float32
    a deep network that is not trained yet makes 1e-3 out of any rounding, the truth's too.
    """
    network, images = copy.deepcopy(network).double(), images.double()
    found = _scores_and_gradient(network, images, labels)
    with _literal(network):
        truth = _scores_and_gradient(network, images, labels)
    return max(relative_error(f, t) for f, t in zip(found, truth, strict=True))


def _scores_and_gradient(
    network: nn.Module, images: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    scores = network(images)
    gradients = torch.autograd.grad(F.cross_entropy(scores, labels), list(network.parameters()))
    return scores, torch.cat([gradient.flatten() for gradient in gradients])


@contextmanager
def _literal(network: nn.Module) -> Iterator[None]:
    """The network with every block computed by the literal equations."""
    blocks = [module for module in network.modules() if isinstance(module, NonLocal2d)]
    for block in blocks:
        block.forward = partial(reference_block, block)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for block in blocks:
            del block.forward


def _weights(block: NonLocal2d) -> list[Tensor]:
    return [conv.weight.flatten(1) for conv in (block.theta, block.phi, block.g, block.out)]


def _evaluated(block: NonLocal2d, queries: Tensor, keys: Tensor) -> Tensor:
    """z of the query pixels over all key pixels, with the norm's running statistics."""
    theta, phi, g, out = (weight.to(keys.dtype) for weight in _weights(block))
    norm = block.norm
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    # The paper's scale counts the keys, whatever the number of queries.
    y = reference.nonlocal_attention(
        theta @ queries,
        phi @ keys,
        g @ keys,
        heads=block.heads,
        attention=block.attention,
    )
    u = out @ y
    mean, var, gamma, beta = (
        v.to(keys.dtype)[:, None]
        for v in (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    )
    return queries + gamma * (u - mean) / (var + norm.eps).sqrt() + beta
