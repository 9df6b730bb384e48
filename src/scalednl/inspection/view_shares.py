"""How much of a trained block's branch is left when attention sees only length, or direction."""

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.attentions import ATTENTIONS
from scalednl.inspection.capture import BlockAttention
from scalednl.ops.layout import Maps
from scalednl.ops.views import Heads, apply_view
from scalednl.options import View

PARTS: tuple[View, ...] = ("magnitude", "direction")
EXPONENTS = range(-2, 9)
"""Temperatures that are tried first, as powers of 2"""
REFINEMENTS = 3
"""How often the step between exponents is halved around the best one"""

PerHead = Float[Tensor, "batch heads"]


def kept_by_view(seen: BlockAttention, view: View) -> Float[Tensor, "batch"]:
    """cos^2(u, u'), u = out(y) with the block's weights and u' the same with theta and phi so seen.

    The share of |u|^2 that c u' explains with the best number c: batch norm would set that number
    anyhow. Over the complete branch of an image, all heads, before batch norm, without out's bias.
    0 where either is 0. Softmax over directions uses `best_temperatures`.
    """
    if seen.block.view != "base":
        raise ValueError(
            f"{seen.name} was trained with view={seen.block.view!r}: kept_by_view needs a block "
            "with view='base'"
        )
    tempered = view == "direction" and ATTENTIONS[seen.block.attention].form == "softmax"
    y = _directions(seen, best_temperatures(seen)) if tempered else seen.attended(view=view)
    base, part = (branch(seen, v).flatten(1).double() for v in (seen.attended(), y))
    product = (base * part).sum(1).square()
    sizes = base.square().sum(1) * part.square().sum(1)
    return torch.where(sizes > 0, product / torch.where(sizes > 0, sizes, 1), 0)


@torch.no_grad()
def branch(seen: BlockAttention, y: Heads) -> Maps:
    """out(y) without its bias."""
    maps = seen.maps(y)
    return seen.block.out(maps) - seen.block.out(torch.zeros_like(maps[:1]))


@torch.no_grad()
def best_temperatures(seen: BlockAttention) -> PerHead:
    """t of every image and head for which softmax_j(t cos(theta_i, phi_j)) g is nearest to A g.

    Nearest in the sum of squares, among 1/4, 1/2, ..., 256 and then between the neighbours of the
    best one, to an eighth of an octave. The network has one temperature per head for all images, so
    this is more than it could keep.
    """
    y = seen.attended()

    def distance(exponents: PerHead) -> PerHead:
        return (_directions(seen, 2**exponents) - y).square().sum((-2, -1))

    best = y.new_full(y.shape[:2], EXPONENTS[0])
    nearest = distance(best)
    steps = [best.new_full(best.shape, float(e)) for e in EXPONENTS[1:]]
    for exponents in steps:
        best, nearest = _nearer(best, nearest, exponents, distance(exponents))
    for halving in range(1, REFINEMENTS + 1):
        middle = best
        for step in (-(0.5**halving), 0.5**halving):
            exponents = middle + step
            best, nearest = _nearer(best, nearest, exponents, distance(exponents))
    return 2**best


def _nearer(
    best: PerHead, nearest: PerHead, exponents: PerHead, distances: PerHead
) -> tuple[PerHead, PerHead]:
    better = distances < nearest
    return torch.where(better, exponents, best), torch.where(better, distances, nearest)


def _directions(seen: BlockAttention, temperatures: PerHead) -> Heads:
    """y of softmax over directions, with one temperature for each image and head."""
    theta, phi = (apply_view(v, "direction") for v in (seen.theta, seen.phi))
    theta = theta * temperatures[..., None, None]
    return seen.attended(theta, phi, softmax_scale=1.0)
