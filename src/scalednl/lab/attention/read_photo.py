"""Photos of any kind and size as upright RGB bytes."""

import io
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from scalednl.errors import CommandError, UsageError
from scalednl.files import read_bytes
from scalednl.lab.data.image_file import (
    FORMATS,
    WIDE,
    in_eight_bits,
    is_clear,
    on_white,
    reason_of,
)
from scalednl.lab.data.splits import Bytes

LARGEST = 50_000_000
"""Pixels of the largest picture that is decoded"""
LARGEST_JPEG = 120_000_000
"""Most pixels of a JPEG, which is decoded at a part of its size: telephones take 108 million"""
LARGEST_FILE = 64 << 20
"""Bytes"""
KEPT_SIDE = 2048
"""Pixels of the longer side: a larger photo is reduced to it as soon as it is decoded"""
ROTATION = 0x0112
"""EXIF's number of the orientation"""
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What each orientation asks for"""
SIDEWAYS = [TURNS[number] for number in (5, 6, 7, 8)]
PICTURE = re.compile(
    rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP|II\*\0|MM\0\*|BM....\0\0\0\0|....ftyp",
    re.DOTALL,
)
"""How files of these formats begin, and HEIC"""
HEIF = re.compile(rb"^....ftyp(heic|heix|heim|hevc|mif1|msf1|avif|avis)", re.DOTALL)


@dataclass(frozen=True)
class Photo:
    """A photo, upright, in 8-bit RGB."""

    pixels: Bytes
    """(height, width, 3), reduced if the photo is larger than `KEPT_SIDE`"""
    size: tuple[int, int]
    """Height and width of the photo in its file, upright"""
    notes: tuple[str, ...] = ()
    """What was done to it, apart from reducing it"""


def read_photo(path: Path) -> Photo:
    """A photo of a file.

    It is rotated as its EXIF data asks, converted to RGB and to 8 bits, and put on white where it
    is transparent. Of an animation the first frame is taken.
    """
    if path.is_dir():
        raise UsageError(f"--image {path} is a folder, not a picture")
    try:
        content = read_bytes(path, LARGEST_FILE)
    except FileNotFoundError:
        raise UsageError(f"--image {path} does not exist") from None
    except CommandError as error:
        raise UsageError(f"--image {error}") from None
    limit = LARGEST
    try:
        with warnings.catch_warnings():
            # Odd metadata does not matter; a picture that claims to be huge is refused below.
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                size = f"{image.size[0]} x {image.size[1]}"
                limit = LARGEST_JPEG if image.format == "JPEG" else LARGEST
                small = image.size[0] * image.size[1] <= limit
                photo = _decoded(image) if small else None
    except Image.DecompressionBombError as error:
        claimed = re.search(r"\d+(?= pixels)", str(error))
        size, photo = claimed[0] if claimed else "too many", None
    except Exception as error:
        # Pillow answers damage with errors of many kinds.
        raise UsageError(f"--image {path} {_problem(content, error)}") from error
    if photo is None:
        raise UsageError(f"--image {path} has {size} pixels (limit {limit:,}): make it smaller")
    return photo


def _problem(content: bytes, error: Exception) -> str:
    """Why a file cannot be decoded, and what would work."""
    if HEIF.match(content):
        return "is a HEIC or AVIF photo: use a PNG or JPEG"
    if isinstance(error, (UnidentifiedImageError, ImportError)):
        return "is not a valid picture: use a PNG or JPEG"
    return f"is damaged: {reason_of(error)}; use a complete copy"


def is_picture(path: Path) -> bool:
    """Whether a file is a picture, by its first bytes; nothing of it is decoded."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return PICTURE.match(file.read(16)) is not None
    except OSError:
        return False


def resized(pixels: Bytes, height: int, width: int) -> Bytes:
    """A picture at another size; pixels are averaged where it becomes smaller."""
    if pixels.shape[:2] == (height, width):
        return pixels
    return np.array(Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC))


def _decoded(image: Image.Image) -> Photo:
    several = getattr(image, "is_animated", False)
    width, height = image.size
    # A JPEG is decoded at a part of its size where that is enough.
    image.draft(None, (KEPT_SIDE, KEPT_SIDE))
    image.load()
    turn = TURNS.get(image.getexif().get(ROTATION, 1))
    notes = (
        "the first of several frames" if several else "",
        "rotated as its EXIF data asks" if turn is not None else "",
        *_conversions(image),
    )
    upright = on_white(_reduced(in_eight_bits(image)))
    if turn is not None:
        upright = upright.transpose(turn)
        if turn in SIDEWAYS:
            width, height = height, width
    return Photo(np.array(upright), (height, width), tuple(note for note in notes if note))


def _conversions(image: Image.Image) -> list[str]:
    notes = {"CMYK": "converted from CMYK to RGB", **dict.fromkeys(WIDE, "reduced to 8 bits")}
    found = [notes[image.mode]] if image.mode in notes else []
    return [*found, "transparent parts on white"] if is_clear(image) else found


def _reduced(image: Image.Image) -> Image.Image:
    image.thumbnail((KEPT_SIDE, KEPT_SIDE), Image.Resampling.BICUBIC)
    return image
