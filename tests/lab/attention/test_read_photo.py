"""Pictures of every kind become upright RGB bytes; what is none is a sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scalednl.errors import UsageError
from scalednl.lab.attention.read_photo import read_photo

GRADIENT = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20


def _saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "LA", "1"])
def test_modes(tmp_path: Path, mode: str) -> None:
    """Grey, colour, palette, black and white, with transparency or without: the same pixels."""
    image = Image.fromarray(GRADIENT).convert(mode)
    truth = np.asarray(image.convert("RGB"))
    found = read_photo(_saved(tmp_path / "photo.png", image))
    assert found.shape == (3, 4, 3)
    assert np.abs(found.astype(int) - truth).max() <= 1


def test_cmyk_turned_and_sixteen_bits(tmp_path: Path) -> None:
    """CMYK is converted, EXIF's turn is made, and 16 bits become 8 without being cut off."""
    grey = Image.fromarray(GRADIENT).convert("CMYK")
    assert read_photo(_saved(tmp_path / "cmyk.jpg", grey, quality=100)).shape == (3, 4, 3)
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = read_photo(_saved(tmp_path / "turned.png", Image.fromarray(GRADIENT), exif=exif))
    assert (turned[..., 0] == np.rot90(GRADIENT, -1)).all()
    wide = Image.fromarray(GRADIENT.astype(np.uint16) * 257)
    assert (read_photo(_saved(tmp_path / "wide.png", wide))[..., 0] == GRADIENT).all()
    numbers = Image.fromarray(GRADIENT.astype(np.float32))
    assert read_photo(_saved(tmp_path / "numbers.tiff", numbers)).max() == 255


def test_what_is_transparent_lies_on_white(tmp_path: Path) -> None:
    """A clear pixel is white, whatever colour hides in it."""
    clear = Image.new("RGBA", (2, 2), (255, 0, 0, 0))
    assert (read_photo(_saved(tmp_path / "clear.png", clear)) == 255).all()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("text.png", b"not a picture", "is not a valid picture"),
        ("empty.jpg", b"", "is not a valid picture"),
        ("cut.png", None, "is not a valid picture"),
        ("missing.png", ..., "does not exist"),
        (".", ..., "is a folder"),
    ],
)
def test_what_is_no_picture(tmp_path: Path, name: str, content: Any, said: str) -> None:
    """Text, an empty or cut file, a missing one, a folder."""
    path = tmp_path / name
    if content is None:
        noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path)
        path.write_bytes(path.read_bytes()[:900])
    elif content is not ...:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=said):
        read_photo(path)


def test_a_picture_that_is_too_large(tmp_path: Path) -> None:
    """One of many pixels is refused by its size, before it is decoded."""
    path = _saved(tmp_path / "large.png", Image.new("1", (4000, 2000)))
    with pytest.raises(UsageError, match=r"4000 x 2000 pixels \(limit 4,000,000\)"):
        read_photo(path)
