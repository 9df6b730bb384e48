"""Image files are decoded to RGB, or refused with their name."""

import numpy as np
import pytest
from PIL import Image

from scalednl.lab.data.errors import DataError
from scalednl.lab.data.image_file import read_picture
from tests.lab.data.builders import encoded, random_images


def test_pixels_are_those_of_the_file() -> None:
    """A PNG gives its pixels, a greyscale one the same in all channels."""
    pixels = random_images(1, 8)[0]
    content = encoded(Image.fromarray(pixels), "PNG")
    assert np.array_equal(read_picture(content, "PNG", "a.png", 8, range(8, 9)), pixels)
    grey = encoded(Image.fromarray(pixels[..., 0]), "PNG")
    expected = np.repeat(pixels[..., :1], 3, axis=2)
    assert np.array_equal(read_picture(grey, "PNG", "a.png", 8, range(1, 9)), expected)


def test_other_sizes_formats_and_damage_are_refused() -> None:
    """A size is refused before the image is decoded; only the expected format is opened."""
    content = encoded(Image.fromarray(random_images(1, 8)[0]), "PNG")
    with pytest.raises(DataError, match=r"a\.png is 8 x 8 pixels, not 8 x 9 to 20"):
        read_picture(content, "PNG", "a.png", 8, range(9, 21))
    with pytest.raises(DataError, match=r"a\.png is 8 x 8 pixels, not 4 x 8"):
        read_picture(content, "PNG", "a.png", 4, range(8, 9))
    for wrong, kind in ((content, "JPEG"), (content[:40], "PNG"), (b"", "PNG")):
        with pytest.raises(DataError, match=rf"a\.png is not a valid {kind} image"):
            read_picture(wrong, kind, "a.png", 8, range(8, 9))
