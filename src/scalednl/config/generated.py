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
        if not 2 <= self.orientations <= 64:
            raise UsageError(f"pairs: orientations={self.orientations} is not in 2 to 64")

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
    """A grating of every key colour on the left and on the right; one colour agrees.

    The class is the colour whose two gratings have the same orientation. To find it, a network
    must recall, for every grating on one side, the orientation that belongs to its colour on the
    other side.
    """

    height: int = 24
    """Rows of an image"""
    width: int = 40
    """Columns of an image"""
    patch: int = 7
    """Height and width of a grating, in pixels"""
    jitter: int = 1
    """Largest distance of a grating from the left or right edge"""
    keys: int = 3
    """Colours; each has one grating on either side. Also the number of classes"""
    values: int = 2
    """Orientations of a grating, evenly spaced over 180 degrees"""
    noise: float = 0.25
    """Standard deviation of the noise; the gratings' amplitude is 2"""
    train_images: int = 5000
    test_images: int = 1000

    def __post_init__(self) -> None:
        _check_sizes("recall", self)
        if not 2 <= self.keys <= len(COLOURS):
            raise UsageError(f"recall: keys={self.keys} is not in 2 to {len(COLOURS)}")
        if self.keys * self.patch > self.height:
            raise UsageError(
                f"recall: keys={self.keys} gratings of patch={self.patch} do not fit below each "
                f"other into height={self.height}: height must be at least keys * patch = "
                f"{self.keys * self.patch}"
            )
        if not 2 <= self.values <= 64:
            raise UsageError(f"recall: values={self.values} is not in 2 to 64")

    @property
    def gap(self) -> int:
        """Smallest number of columns between the gratings on the left and on the right."""
        return _gap(self)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.keys


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
    if not 0 <= config.noise <= 1000:
        raise UsageError(f"{name}: noise={config.noise} is not in 0 to 1000")
    for images in ("train_images", "test_images"):
        if getattr(config, images) < 1:
            raise UsageError(f"{name}: {images}={getattr(config, images)} must be at least 1")
