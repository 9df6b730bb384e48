"""What an attention sees of theta and phi: all, their length or their direction, head by head."""

import torch
from jaxtyping import Float
from torch import Tensor

from scalednl.ops.layout import accumulation_dtype
from scalednl.options import View

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
        return lengths(split).to(split.dtype)
    if view == "direction":
        return directions(split)
    return split


def lengths(split: Heads) -> Float[Tensor, "batch heads pixels 1"]:
    """|v| of every row, in at least float32; all its derivatives at a zero vector are 0."""
    squares = split.to(accumulation_dtype(split.dtype)).square().sum(-1, keepdim=True)
    present = squares > 0
    return torch.where(present, torch.where(present, squares, 1).sqrt(), 0)


def directions(split: Heads) -> Heads:
    """v / |v| of every row; the direction of a zero vector is 0, and so are its derivatives.

    A zero vector is divided by infinity. Any finite number would do for the value, but its inverse
    would be the slope there: with 1e-12, one dead pixel sends a gradient of 1e12 to the weights.
    """
    length = lengths(split)
    return (split / torch.where(length > 0, length, torch.inf)).to(split.dtype)
