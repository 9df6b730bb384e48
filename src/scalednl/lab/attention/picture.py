"""Images as networks receive them, and as readers see them."""

from dataclasses import dataclass
from pathlib import Path

from scalednl.errors import UsageError
from scalednl.lab.attention.read_photo import Photo, read_photo, resized
from scalednl.lab.data.splits import Bytes

MOST_PIXELS = 250_000
"""Most pixels of a photo as a network receives it: memory grows with them (up to 2 GB for wide
networks), the time of softmax with their square"""
SHOWN_SIDE = 480
"""Pixels of the longer side of a photo in figures and pages"""


@dataclass(frozen=True)
class Picture:
    """An image as the network receives it, before normalisation."""

    pixels: Bytes
    title: str
    index: int
    """In the test split; of photos, in the order given"""
    label: str | None
    photo: Photo | None = None
    """The photo that `pixels` were made from"""
    notes: tuple[str, ...] = ()
    """What was done to the photo, in words"""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in which places of the picture are given: those of the photo's file."""
        height, width = self.pixels.shape[:2]
        return (height, width) if self.photo is None else self.photo.size

    @property
    def shown(self) -> Bytes:
        """What readers see: of a photo more detail than the network received."""
        if self.photo is None:
            return self.pixels
        height, width = self.photo.pixels.shape[:2]
        scale = min(1.0, SHOWN_SIDE / max(height, width))
        return resized(self.photo.pixels, *_scaled((height, width), scale))


@dataclass(frozen=True)
class PhotoSize:
    """The size at which photos are shown to a network."""

    shorter: int
    """Pixels of the shorter side"""
    forced: bool
    """Whether smaller photos are enlarged to it"""
    reason: str = ""
    """Why it is this size, in words"""


def photo_picture(path: Path, index: int, size: PhotoSize) -> Picture:
    """The photo of a file, at the size that a network is to receive."""
    photo = read_photo(path)
    own = photo.size
    scale = size.shorter / min(own)
    if not size.forced:
        scale = min(1.0, scale)
    height, width = _scaled(own, scale)
    if height * width > MOST_PIXELS:
        raise UsageError(_too_large(path, own, (height, width)))
    how = f"shown to the network as {width} x {height} pixels"
    if (height, width) == own:
        how = "shown to the network as it is"
    elif size.reason:
        how = f"{how}, {size.reason}"
    pixels = resized(photo.pixels, height, width)
    # A name that is not valid UTF-8 can stand in no record.
    name = path.name.encode("utf-8", "backslashreplace").decode()
    return Picture(pixels, name, index, None, photo, (*photo.notes, how))


def _scaled(size: tuple[int, int], scale: float) -> tuple[int, int]:
    height, width = (max(1, round(side * scale)) for side in size)
    return height, width


def _too_large(path: Path, own: tuple[int, int], size: tuple[int, int]) -> str:
    height, width = size
    # Less one, because sides are rounded.
    most = int(min(own) * (MOST_PIXELS / (own[0] * own[1])) ** 0.5) - 1
    return (
        f"--image {path} would be {width} x {height} pixels for the network (limit "
        f"{MOST_PIXELS:,}): use --resize {most} or less"
    )
