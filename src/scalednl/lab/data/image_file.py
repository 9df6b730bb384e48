"""Image files that may be damaged or malicious."""

import io
import warnings

import numpy as np
from PIL import Image

from scalednl.lab.data.errors import DataError
from scalednl.lab.data.splits import Bytes

MAX_GROWTH = 50
"""Pixels per byte of a file; natural images have about one"""


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
