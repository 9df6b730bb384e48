"""How hard the generated images of `pairs` are."""

from dataclasses import dataclass

from scalednl.errors import UsageError


@dataclass(frozen=True)
class PairsConfig:
    """How hard the images are; the default is what a PreResNet-8 with one block solves."""

    side: int = 32
    """Height and width of an image"""
    patch: int = 9
    """Height and width of a grating"""
    noise: float = 0.25
    """Standard deviation of the noise; the gratings' amplitude is 2"""
    orientations: int = 4
    """Of a grating, evenly over half a turn; also the number of classes"""
    distractors: int = 0
    """Green gratings, which mean nothing, in the two other quadrants: 0, 1 or 2"""
    distance: int | None = None
    """Rows and columns from one patch to the other; None: anywhere in opposite quadrants"""
    amplitude: float = 2.0
    wavelength: float = 4.0
    """Pixels"""
    window: float = 2.5
    """Standard deviation of the gratings' Gaussian window, in pixels"""
    train_images: int = 8000
    test_images: int = 2000

    def __post_init__(self) -> None:
        if not 1 <= self.patch <= self.side // 2:
            raise UsageError(
                f"pairs: a patch of {self.patch} does not fit into a quadrant of "
                f"{self.side // 2}: give 1 to {self.side // 2}"
            )
        if not 2 <= self.orientations <= 64:
            raise UsageError(f"pairs: orientations={self.orientations} is not in 2 to 64")
        if self.distractors not in (0, 1, 2):
            raise UsageError(f"pairs: distractors={self.distractors} is not 0, 1 or 2")
        if self.distance is not None and not self.patch <= self.distance <= self.side - self.patch:
            raise UsageError(
                f"pairs: a distance of {self.distance} is not in {self.patch} (side by side) to "
                f"{self.side - self.patch} (corner to corner)"
            )
        for name in ("noise", "amplitude", "wavelength", "window"):
            value = getattr(self, name)
            smallest = 0 if name in ("noise", "amplitude") else 1e-3
            if not smallest <= value <= 1000:
                raise UsageError(f"pairs: {name}={value} makes no sense")
        for name in ("train_images", "test_images"):
            if getattr(self, name) < 1:
                raise UsageError(f"pairs: {name}={getattr(self, name)} must be at least 1")
