"""Configurations of the generated data sets: `pairs` and `recall`."""

import math
from dataclasses import dataclass
from typing import ClassVar

from scalednl.errors import UsageError

COLOURS = ("red", "blue", "green", "yellow", "magenta", "cyan")
"""The keys of `recall`, in the order in which they are used"""


@dataclass(frozen=True)
class GratingsConfig:
    """Noisy images with gratings at the left and the right edge; a turn is the class.

    No unit of a network's last convolution sees both edges if its receptive field is at most
    `gap` + 1 columns wide. The defaults allow 25 columns, the receptive field of PreResNet-8.
    """

    name: ClassVar[str]
    """The data set that these are the options of"""
    height: int = 16
    """Rows of an image"""
    width: int = 40
    """Columns of an image"""
    patch: int = 7
    """Height and width of a grating, in pixels"""
    jitter: int = 1
    """Largest distance of a grating from the left or right edge"""
    orientations: int = 4
    """Orientations of a grating, evenly spaced over 180 degrees; also the number of classes"""
    noise: float = 0.25
    """Standard deviation of the noise; the gratings' amplitude is 2"""
    train_images: int = 5000
    test_images: int = 1000

    def __post_init__(self) -> None:
        if self.patch < 1 or self.jitter < 0 or self.gap < 0:
            raise UsageError(
                f"{self.name}: width={self.width} has no room for two gratings of "
                f"patch={self.patch} and jitter={self.jitter}: width must be at least "
                "2 * (patch + jitter), patch at least 1 and jitter at least 0"
            )
        if self.patch > self.height:
            raise UsageError(
                f"{self.name}: patch={self.patch} does not fit into height={self.height}"
            )
        self._check_range("orientations", 2, 64)
        self._check_range("noise", 0, 1000)
        self._check_range("train_images", 1)
        self._check_range("test_images", 1)

    def _check_range(self, option: str, low: int, high: float = math.inf) -> None:
        value = getattr(self, option)
        if not low <= value <= high:
            allowed = f"at least {low}" if high == math.inf else f"in {low} to {high}"
            raise UsageError(f"{self.name}: {option} must be {allowed}, got {value}")

    @property
    def gap(self) -> int:
        """Smallest number of columns between the gratings of the two edges."""
        return self.width - 2 * (self.patch + self.jitter)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.orientations


@dataclass(frozen=True)
class PairsConfig(GratingsConfig):
    """Two gratings at opposite edges; the class is the difference of their orientations."""

    name: ClassVar[str] = "pairs"


@dataclass(frozen=True)
class RecallConfig(GratingsConfig):
    """Several coloured gratings at each edge; the class belongs to the one colour they share.

    The class is the difference of the orientations of the two gratings of that colour. No colour
    is the shared one more often than others.
    """

    name: ClassVar[str] = "recall"
    orientations: int = 2
    """Values: orientations of a grating, evenly spaced over 180 degrees; the number of classes"""
    noise: float = 0.1
    """Standard deviation of the noise; the gratings' amplitude is 2"""
    train_images: int = 30000
    colours: int = 6
    """Keys: colours that a grating can have"""
    per_side: int = 2
    """Gratings at each edge, all of different colours; at most (colours + 1) / 2"""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_range("colours", 1, len(COLOURS))
        # More gratings per edge would have more than one colour in common.
        self._check_range("per_side", 1, (self.colours + 1) // 2)
        if self.per_side * self.patch > self.height:
            raise UsageError(
                f"recall: per_side={self.per_side} gratings of patch={self.patch} do not fit below "
                f"each other into height={self.height}: height must be at least per_side * patch "
                f"= {self.per_side * self.patch}"
            )


GENERATED: dict[str, type[PairsConfig] | type[RecallConfig]] = {
    "pairs": PairsConfig,
    "recall": RecallConfig,
}
"""Data sets that are generated, and the type of the field of an experiment with their options"""
