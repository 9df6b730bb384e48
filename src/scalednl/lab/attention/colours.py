"""Numbers as colours: `hot`, as in the authors' release, and a signed, colour-blind-safe map."""

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch.nn.functional as F
from jaxtyping import Float
from PIL import Image
from torch import Tensor

Colours = Literal["hot", "signed"]
COLOURS: tuple[Colours, ...] = ("hot", "signed")
NAMES = {"hot": "hot", "signed": "PuOr_r"}
"""Matplotlib's names"""
LARGEST_SIDE = 512
Entries = Float[Tensor, "rows columns"]


def colour_range(values: Tensor, colours: Colours) -> tuple[float, float]:
    """From the smallest to the largest number; signed colours are white at 0."""
    low, high = float(values.min()), float(values.max())
    if colours == "signed":
        high = max(abs(low), abs(high))
        low = -high
    return (low, high) if high > low else (low, low + 1)


def shrunk(values: Entries, side: int = LARGEST_SIDE) -> Float[Tensor, "fewer_rows fewer_columns"]:
    """The map with at most `side` rows and columns, each the mean of those it replaces."""
    rows, columns = values.shape
    if max(rows, columns) <= side:
        return values
    return F.adaptive_avg_pool2d(values[None], (min(side, rows), min(side, columns)))[0]


def bare_picture(values: Entries, colours: Colours) -> Image.Image:
    """One pixel per entry and nothing else, in 256 colours."""
    low, high = colour_range(values, colours)
    steps = ((values - low) / (high - low) * 255).round().clamp(0, 255)
    picture = Image.fromarray(steps.cpu().numpy().astype(np.uint8), mode="P")
    picture.putpalette(palette(colours).tobytes())
    return picture


def palette(colours: Colours) -> npt.NDArray[np.uint8]:
    """256 colours of red, green and blue."""
    from matplotlib import colormaps

    table = colormaps[NAMES[colours]](np.linspace(0, 1, 256))[:, :3]
    return (table * 255).round().astype(np.uint8)
