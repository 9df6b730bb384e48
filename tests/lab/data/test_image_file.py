"""Image files are decoded to RGB, or refused with their name."""

import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image

from scalednl.lab.config.folder import Resize
from scalednl.lab.data import image_file
from scalednl.lab.data.errors import DataError
from scalednl.lab.data.image_file import read_picture, read_square, without_warnings
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


def _halves(width: int, height: int) -> Image.Image:
    """Left red, right blue."""
    image = Image.new("RGB", (width, height), "red")
    image.paste("blue", (width // 2, 0, width, height))
    return image


@pytest.mark.parametrize(
    ("resize", "corner", "middle"),
    [("crop", (255, 0, 0), (255, 0, 0)), ("pad", (0, 0, 0), (255, 0, 0))],
)
def test_images_become_squares(
    resize: Resize, corner: tuple[int, ...], middle: tuple[int, ...]
) -> None:
    """The middle is kept, or black is added; either way left stays left."""
    pixels = read_square(encoded(_halves(40, 20), "PNG"), 10, resize)
    assert pixels.shape == (10, 10, 3)
    assert tuple(pixels[0, 0]) == corner
    assert tuple(pixels[5, 0]) == middle
    assert tuple(pixels[5, 9]) == (0, 0, 255)


def test_crop_keeps_the_middle_and_stretch_everything() -> None:
    """A stripe at the edge is cropped away, or stays."""
    image = Image.new("RGB", (30, 10), "black")
    image.paste("white", (0, 0, 6, 10))
    assert read_square(encoded(image, "PNG"), 10, "crop").max() == 0
    assert read_square(encoded(image, "PNG"), 10, "stretch")[:, 0].min() == 255
    tall = read_square(encoded(image.transpose(Image.Transpose.ROTATE_90), "PNG"), 10, "crop")
    assert tall.max() == 0


def test_an_image_of_the_right_size_keeps_its_pixels() -> None:
    """Nothing is resized, so nothing is blurred."""
    pixels = random_images(1, 8)[0]
    for resize in ("crop", "stretch", "pad"):
        found = read_square(encoded(Image.fromarray(pixels), "PNG"), 8, resize)
        assert np.array_equal(found, pixels)


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "CMYK", "1", "I;16"])
def test_every_mode_becomes_rgb(mode: str) -> None:
    """Grey, palettes, CMYK and 16 bits; what is transparent is on white."""
    kind = "TIFF" if mode == "CMYK" else "PNG"
    whites: dict[str, float | tuple[float, ...]] = {"I;16": 65535, "CMYK": (0, 0, 0, 0), "P": 0}
    image = Image.new(mode, (12, 9), whites.get(mode, "white"))
    if mode == "P":
        image.putpalette([255, 255, 255])
    if mode in ("RGBA", "LA"):
        image = Image.new(mode, (12, 9))
        assert image.getextrema()[-1] == (0, 0)
    assert (read_square(encoded(image, kind), 8, "crop") == 255).all()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_exif_orientation_is_respected(kind: str) -> None:
    """An image that is stored on its side is turned upright."""
    exif = Image.Exif()
    exif[0x0112] = 6
    image = _halves(32, 32)
    content = encoded(image, kind, exif=exif)
    pixels = read_square(content, 16, "crop").astype(int)
    assert pixels[2, :, 0].min() > 200, "red is on top"
    assert pixels[13, :, 2].min() > 200, "blue is below"


def test_damaged_exif_does_not_matter() -> None:
    """The pixels are used as they are stored."""
    content = encoded(_halves(32, 32), "JPEG", exif=b"Exif\x00\x00MM\x00\x2a\xff\xff\xff\xff")
    with without_warnings():
        assert read_square(content, 16, "crop")[:, 2, 0].min() > 200


def test_a_large_jpeg_is_decoded_at_a_fraction_of_its_size() -> None:
    """And looks the same."""
    ramp = np.tile(np.linspace(0, 255, 1600).astype(np.uint8)[None, :, None], (1200, 1, 3))
    small = read_square(encoded(Image.fromarray(ramp), "JPEG", quality=95), 20, "stretch")
    exact = read_square(encoded(Image.fromarray(ramp), "PNG"), 20, "stretch")
    assert np.abs(small.astype(int) - exact).max() <= 3


def _claims(width: int, height: int) -> bytes:
    """The beginning of a PNG that claims a size."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IDAT" + bytes(4)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not an image of a known kind"),
        (b"%!PS-Adobe-3.0 EPSF-3.0", "not an image of a known kind"),
        (_claims(12_000, 10_000), "12000 x 10000 pixels, limit 100,000,000"),
        (_claims(60_000, 60_000), "3600000000 pixels, limit 100,000,000"),
        (_claims(20, 20), ""),
        (encoded(Image.fromarray(random_images(1, 64)[0]), "JPEG")[:900], "truncated"),
    ],
)
def test_what_cannot_be_read_is_a_reason(content: bytes, said: str) -> None:
    """Damage, other kinds of files, and images that claim to be huge."""
    with without_warnings(), pytest.raises(ValueError, match=said):
        read_square(content, 8, "crop")


def test_the_limit_is_that_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image above it is refused before it is decoded."""
    content = encoded(_halves(40, 20), "PNG")
    monkeypatch.setattr(image_file, "LARGEST", 799)
    monkeypatch.setattr(image_file, "as_rgb", lambda _: pytest.fail("it was decoded"))
    with pytest.raises(ValueError, match="40 x 20 pixels, limit 799"):
        read_square(content, 8, "crop")


def test_warnings_are_silent_inside() -> None:
    """And as before afterwards."""
    with without_warnings():
        warnings.warn("odd metadata", stacklevel=1)
    with pytest.warns(UserWarning, match="odd"):
        warnings.warn("odd metadata", stacklevel=1)


def test_another_open_in_the_place_of_pillows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that looks for a reader of the file and has none changes no reason."""

    def find_reader(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'reader'")

    monkeypatch.setattr(Image, "open", find_reader)
    with pytest.raises(ValueError, match="not an image of a known kind"):
        read_square(b"x", 8, "crop")
