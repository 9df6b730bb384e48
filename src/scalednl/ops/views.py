"""What an attention sees of theta and phi: all, their length or their direction, head by head."""

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.ops.options import View

Heads = Float[Tensor, "batch heads pixels width"]


def split_heads(rows: Float[Tensor, "batch pixels embed"], heads: int) -> Heads:
    """View rows of embeddings as one set of rows per head."""
    return rows.unflatten(2, (heads, -1)).transpose(1, 2)


def merge_heads(split: Heads) -> Float[Tensor, "batch pixels embed"]:
    """Undo `split_heads`."""
    return split.transpose(1, 2).flatten(2)


def apply_view(split: Heads, view: View) -> Float[Tensor, "batch heads pixels seen"]:
    """The rows as `view` shows them: width 1 for "magnitude", unit length for "direction"."""
    if view == "magnitude":
        return lengths(split)
    if view == "direction":
        return directions(split)
    return split


def lengths(split: Heads) -> Float[Tensor, "batch heads pixels 1"]:
    """|v| of every row; its slope at a zero vector is 0."""
    return torch.linalg.vector_norm(split, dim=-1, keepdim=True)


def directions(split: Heads) -> Heads:
    """v / |v| of every row; the direction of a zero vector is 0, and so is its slope.

    A small constant under the division would do for the value, but its slope at zero is that
    constant's inverse: one dead pixel would then throw a gradient of 1e12 at the weights.
    """
    length = lengths(split)
    present = length > 0
    return split * torch.where(present, torch.where(present, length, 1).reciprocal(), 0)
