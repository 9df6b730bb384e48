"""Gratings read back from pixels."""

import numpy as np
import numpy.typing as npt


def orientation(channel: npt.NDArray[np.float64]) -> float:
    """The direction of strongest change, in degrees modulo 180."""
    down, across = np.gradient(channel)
    angle = np.arctan2(2 * (down * across).sum(), (across**2 - down**2).sum()) / 2
    return float(np.degrees(angle)) % 180
