"""Pictures of any kind as upright RGB bytes."""

import io
import re
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from scalednl.errors import CommandError, UsageError
from scalednl.files import read_bytes
from scalednl.lab.data.image_file import FORMATS, as_rgb
from scalednl.lab.data.splits import Bytes

LARGEST = 4_000_000
"""Pixels of the largest picture taken"""
LARGEST_FILE = 64 << 20
"""Bytes; twice those of the largest picture without compression"""


def read_photo(path: Path) -> Bytes:
    """The pixels (height, width, 3) of a picture.

    It is rotated as its EXIF data asks, converted to RGB and to 8 bits, and put on white where it
    is transparent.
    """
    if path.is_dir():
        raise UsageError(f"--image {path} is a folder, not a picture")
    try:
        content = read_bytes(path, LARGEST_FILE)
    except FileNotFoundError:
        raise UsageError(f"--image {path} does not exist") from None
    except CommandError as error:
        raise UsageError(f"--image {error}") from None
    try:
        with warnings.catch_warnings():
            # Odd metadata does not matter; a picture that claims to be huge is refused below.
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                size = f"{image.size[0]} x {image.size[1]}"
                small = image.size[0] * image.size[1] <= LARGEST
                pixels = np.array(as_rgb(ImageOps.exif_transpose(image))) if small else None
    except Image.DecompressionBombError as error:
        claimed = re.search(r"\d+(?= pixels)", str(error))
        size, pixels = claimed[0] if claimed else "too many", None
    except Exception as error:
        # Pillow answers damage with errors of many kinds.
        raise UsageError(f"--image {path} is not a valid picture: use a PNG or JPEG") from error
    if pixels is None:
        raise UsageError(f"--image {path} has {size} pixels (limit {LARGEST:,}): make it smaller")
    return pixels
