"""Image files that may be damaged or malicious."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from scalednl.errors import first_line
from scalednl.lab.config.folder import Resize
from scalednl.lab.data.errors import DataError
from scalednl.lab.data.splits import Bytes

MAX_GROWTH = 50
"""Pixels per byte of a file; natural images have about one"""
FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF")
"""Others are not tried: Pillow starts Ghostscript for an EPS file, whatever its name"""
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".gif")
"""How the names of such files end"""
WIDE = ("I;16", "I;16B", "I;16L", "I;16N", "I", "F")
"""Pillow's modes of grey in more than 8 bits"""
CLEAR = ("RGBA", "LA", "PA", "RGBa", "La")
"""Pillow's modes with transparency"""
LARGEST = 100_000_000
"""Pixels of the largest image that is made small"""
FINER = 3
"""A JPEG is decoded at a fraction of its size that leaves this many pixels for each of a side"""


def read_picture(content: bytes, kind: str, name: str, width: int, heights: range) -> Bytes:
    """The RGB pixels of a JPEG or PNG, refused before decoding if it has not the right size."""
    try:
        with warnings.catch_warnings():
            # Pillow warns about odd metadata, which does not matter here.
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content), formats=[kind]) as image:
                size = image.size
                fits = size[0] == width and size[1] in heights
                if fits and size[0] * size[1] > MAX_GROWTH * len(content):
                    raise DataError(
                        f"{name} claims {size[0]} x {size[1]} pixels in {len(content):,} bytes"
                    )
                pixels = np.asarray(image.convert("RGB")) if fits else None
    except DataError:
        raise
    except Exception as error:
        # Pillow raises errors of many kinds for damaged images, and for ones that claim to be huge.
        raise DataError(f"{name} is not a valid {kind} image: download it again") from error
    if pixels is None:
        high = heights.start if len(heights) == 1 else f"{heights.start} to {heights.stop - 1}"
        raise DataError(f"{name} is {size[0]} x {size[1]} pixels, not {width} x {high}")
    return pixels


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence Pillow, which warns about odd metadata and about large images.

    Around all threads that decode: filters of warnings belong to the process.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read_square(content: bytes, side: int, resize: Resize) -> Bytes:
    """The pixels (side, side, 3) of an image of any size and kind.

    It is rotated as its EXIF data asks, and put on white where it is transparent. Raises
    `ValueError` with the reason if it cannot be read. To be called within `without_warnings`.
    """
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if image.width * image.height > LARGEST:
                raise ValueError(_too_large(f"{image.width} x {image.height}"))
            if image.format in ("JPEG", "MPO"):
                image.draft(None, (FINER * side, FINER * side))
            return np.asarray(_square(as_rgb(_upright(image)), side, resize))
    except ValueError as error:
        raise ValueError(reason_of(error)) from error
    except Image.DecompressionBombError as error:
        claimed = re.search(r"\d+(?= pixels)", str(error))
        raise ValueError(_too_large(claimed[0] if claimed else "too many")) from error
    except Exception as error:
        # Pillow raises errors of many kinds for damaged images.
        raise ValueError(reason_of(error)) from error


def _too_large(size: str) -> str:
    return f"{size} pixels, limit {LARGEST:,}"


def reason_of(error: Exception) -> str:
    """Why Pillow could not read a file, in one line."""
    # Other packages replace Pillow's `open` by one that imports readers of more kinds.
    if isinstance(error, (UnidentifiedImageError, ImportError)):
        return "not an image of a known kind"
    return first_line(error)


def _upright(image: Image.Image) -> Image.Image:
    """The image as its EXIF data asks; as it is stored if that data is damaged."""
    try:
        return ImageOps.exif_transpose(image)
    except Exception:
        # Pixels that are damaged fail again where they are used.
        return image


def _square(image: Image.Image, side: int, resize: Resize) -> Image.Image:
    width, height = image.size
    if resize == "pad":
        return ImageOps.pad(image, (side, side), Image.Resampling.BILINEAR)
    left = top = 0.0
    if resize == "crop":
        left, top = (max(0, width - height) / 2, max(0, height - width) / 2)
    box = (left, top, width - left, height - top)
    if image.size == (side, side):
        return image
    return image.resize((side, side), Image.Resampling.BILINEAR, box)


def as_rgb(image: Image.Image) -> Image.Image:
    """The image as RGB of 8 bits, on white where it is transparent."""
    return on_white(in_eight_bits(image))


def is_clear(image: Image.Image) -> bool:
    """Whether parts of it may be transparent."""
    return image.mode in CLEAR or "transparency" in image.info


def in_eight_bits(image: Image.Image) -> Image.Image:
    """The image in RGB or RGBA."""
    if image.mode in WIDE:
        image = _grey_of_eight_bits(image)
    mode = "RGBA" if is_clear(image) else "RGB"
    # Converting to the same mode would copy it.
    return image if image.mode == mode else image.convert(mode)


def on_white(image: Image.Image) -> Image.Image:
    """An image of `in_eight_bits` as RGB."""
    if image.mode == "RGB":
        return image
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def _grey_of_eight_bits(image: Image.Image) -> Image.Image:
    """16-bit numbers lose their lower half, others are stretched to the range."""
    values = np.nan_to_num(np.asarray(image)) if image.mode == "F" else np.asarray(image)
    if image.mode != "F":
        # In place of a division that would need eight bytes per pixel.
        return Image.fromarray((np.clip(values, 0, 65535) >> 8).astype(np.uint8))
    low, high = float(values.min()), float(values.max())
    stretched = (values - np.float32(low)) * np.float32(255 / (high - low) if high > low else 0)
    return Image.fromarray(stretched.round().astype(np.uint8))
