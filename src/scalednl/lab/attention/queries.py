"""The pixels whose attention is drawn."""

import numpy as np
import numpy.typing as npt

from scalednl.lab.data.splits import Bytes

ImagePlace = tuple[int, int]
"""Row and column in the image"""
REACH = 2
"""How far around a pixel its neighbourhood goes, in pixels"""


def spread_queries(size: tuple[int, int]) -> list[ImagePlace]:
    """Places spread over an image of this height and width."""
    height, width = size
    return [(height // 2, width // 2), (height // 4, width // 4), (3 * height // 4, width // 2)]


def grating_queries(pixels: Bytes) -> list[ImagePlace]:
    """A pixel in the grating at each edge of a generated image."""
    middle = pixels.shape[1] // 2
    row, column = _strongest(pixels[:, :middle])
    other_row, other_column = _strongest(pixels[:, middle:])
    return [(row, column), (other_row, middle + other_column)]


def _strongest(pixels: Bytes) -> ImagePlace:
    """Where colours vary most about their mean, in a neighbourhood."""
    energy = ((pixels - pixels.mean((0, 1))) ** 2).sum(2)
    for axis in (0, 1):
        energy = _smoothed(energy, axis)
    row, column = np.unravel_index(int(energy.argmax()), energy.shape)
    return int(row), int(column)


def _smoothed(values: npt.NDArray[np.float64], axis: int) -> npt.NDArray[np.float64]:
    reach = min(REACH, (values.shape[axis] - 1) // 2)
    kernel = np.ones(2 * reach + 1)
    return np.apply_along_axis(lambda line: np.convolve(line, kernel, mode="same"), axis, values)


def cell_of(place: ImagePlace, image: tuple[int, ...], cells: tuple[int, ...]) -> ImagePlace:
    """The row and column of a block's map that an image's pixel falls into."""
    row, column = (p * n // size for p, n, size in zip(place, cells, image, strict=True))
    return row, column
