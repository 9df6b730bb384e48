"""Configurations of the generated data sets: `pairs` and `recall`."""

from dataclasses import dataclass

from scalednl.errors import UsageError

COLOURS = ("red", "blue", "green", "yellow", "magenta", "cyan")
"""The keys of `recall`, in the order in which they are used"""


@dataclass(frozen=True)
class PairsConfig:
    """Two gratings at opposite edges; the class is the difference of their orientations.

    No unit of a network's last convolution sees both gratings if its receptive field is at most
    `gap` + 1 columns wide. The defaults allow 25 columns, the receptive field of PreResNet-8.
    """

    height: int = 16
    """Rows of an image"""
    width: int = 40
    """Columns of an image"""
    patch: int = 7
    """Height and width of a grating, in pixels"""
    jitter: int = 1
    """Largest distance of a grating from the left or right edge; its row is arbitrary"""
    orientations: int = 4
    """Orientations of a grating, evenly spaced over 180 degrees; also the number of classes"""
    noise: float = 0.25
    """Standard deviation of the noise; the gratings' amplitude is 2"""
    train_images: int = 5000
    test_images: int = 1000

    def __post_init__(self) -> None:
        _check_sizes("pairs", self)

    @property
    def gap(self) -> int:
        """Smallest number of columns between the two gratings."""
        return _gap(self)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.orientations


@dataclass(frozen=True)
class RecallConfig:
    """Several coloured gratings at each edge; the class belongs to the one colour they share.

    The class is the difference of the orientations of the two gratings of that colour. No colour
    is the shared one more often than others. `gap` means what it means for `pairs`.
    """

    height: int = 16
    """Rows of an image"""
    width: int = 40
    """Columns of an image"""
    patch: int = 7
    """Height and width of a grating, in pixels"""
    jitter: int = 1
    """Largest distance of a grating from the left or right edge"""
    colours: int = 6
    """Keys: colours that a grating can have"""
    per_side: int = 2
    """Gratings at each edge, all of different colours; at most (colours + 1) / 2"""
    orientations: int = 2
    """Values: orientations of a grating, evenly spaced over 180 degrees; the number of classes"""
    noise: float = 0.1
    """Standard deviation of the noise; the gratings' amplitude is 2"""
    train_images: int = 30000
    test_images: int = 1000

    def __post_init__(self) -> None:
        _check_sizes("recall", self)
        if not 1 <= self.colours <= len(COLOURS):
            raise UsageError(f"recall: colours={self.colours} is not in 1 to {len(COLOURS)}")
        if not 1 <= self.per_side <= (self.colours + 1) // 2:
            raise UsageError(
                f"recall: per_side={self.per_side} gratings per edge with one colour in common do "
                f"not exist with colours={self.colours}: per_side must be in 1 to "
                f"{(self.colours + 1) // 2}"
            )
        if self.per_side * self.patch > self.height:
            raise UsageError(
                f"recall: per_side={self.per_side} gratings of patch={self.patch} do not fit below "
                f"each other into height={self.height}: height must be at least per_side * patch "
                f"= {self.per_side * self.patch}"
            )

    @property
    def gap(self) -> int:
        """Smallest number of columns between the gratings of the two edges."""
        return _gap(self)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.orientations


def _gap(config: PairsConfig | RecallConfig) -> int:
    return config.width - 2 * (config.patch + config.jitter)


def _check_sizes(name: str, config: PairsConfig | RecallConfig) -> None:
    if config.patch < 1 or config.jitter < 0 or config.gap < 0:
        raise UsageError(
            f"{name}: width={config.width} has no room for two gratings of patch={config.patch} "
            f"and jitter={config.jitter}: width must be at least 2 * (patch + jitter), patch at "
            "least 1 and jitter at least 0"
        )
    if config.patch > config.height:
        raise UsageError(
            f"{name}: a grating of patch={config.patch} does not fit into height={config.height}"
        )
    if not 2 <= config.orientations <= 64:
        raise UsageError(f"{name}: orientations={config.orientations} is not in 2 to 64")
    if not 0 <= config.noise <= 1000:
        raise UsageError(f"{name}: noise={config.noise} is not in 0 to 1000")
    for images in ("train_images", "test_images"):
        if getattr(config, images) < 1:
            raise UsageError(f"{name}: {images}={getattr(config, images)} must be at least 1")
