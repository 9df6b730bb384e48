"""Which pixels are asked where they look."""

import numpy as np
import numpy.typing as npt

from scalednl.lab.data.splits import Bytes

Place = tuple[int, int]
"""Row and column in the image"""
RED, BLUE = 0, 2
REACH = 2
"""How far around a pixel its neighbourhood goes, in pixels"""


def default_queries(pixels: Bytes, data: str | None) -> list[Place]:
    """Middles of gratings of generated images; else places spread over the image.

    These are the red and the blue one of `pairs`, and the strongest of each side of `recall`.
    """
    height, width = pixels.shape[:2]
    if data == "recall":
        middle = width // 2
        (row, column), (other, second) = (
            _strongest(half.max(2)) for half in (pixels[:, :middle], pixels[:, middle:])
        )
        return [(row, column), (other, middle + second)]
    if data == "pairs":
        return [_strongest(pixels[..., channel]) for channel in (RED, BLUE)]
    return [(height // 2, width // 2), (height // 4, width // 4), (3 * height // 4, width // 2)]


def _strongest(channel: Bytes) -> Place:
    """Where a channel varies most about its mean, in a neighbourhood."""
    energy = (channel.astype(np.float64) - channel.mean()) ** 2
    for axis in (0, 1):
        energy = _smoothed(energy, axis)
    row, column = np.unravel_index(int(energy.argmax()), energy.shape)
    return int(row), int(column)


def _smoothed(values: npt.NDArray[np.float64], axis: int) -> npt.NDArray[np.float64]:
    reach = min(REACH, (values.shape[axis] - 1) // 2)
    kernel = np.ones(2 * reach + 1)
    return np.apply_along_axis(lambda line: np.convolve(line, kernel, mode="same"), axis, values)


def cell_of(place: Place, image: tuple[int, ...], cells: tuple[int, ...]) -> Place:
    """The row and column of a block's map that an image's pixel falls into."""
    row, column = (p * n // size for p, n, size in zip(place, cells, image, strict=True))
    return row, column
