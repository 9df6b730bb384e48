"""Pictures of every kind become upright RGB bytes; what is none is a sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from scalednl.errors import UsageError
from scalednl.lab.attention.read_photo import is_picture, read_photo
from scalednl.lab.data.image_file import FORMATS

GRADIENT = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20


def _saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "LA", "1"])
def test_modes(tmp_path: Path, mode: str) -> None:
    """Grey, colour, palette, black and white, with transparency or without: the same pixels."""
    image = Image.fromarray(GRADIENT).convert(mode)
    truth = np.asarray(image.convert("RGB"))
    found = read_photo(_saved(tmp_path / "photo.png", image)).pixels
    assert found.shape == (3, 4, 3)
    assert np.abs(found.astype(int) - truth).max() <= 1


def test_cmyk(tmp_path: Path) -> None:
    """CMYK is converted, which is noted."""
    grey = Image.fromarray(GRADIENT).convert("CMYK")
    photo = read_photo(_saved(tmp_path / "cmyk.jpg", grey, quality=100))
    assert np.abs(photo.pixels.astype(int) - GRADIENT[..., None]).max() < 30
    assert photo.notes == ("converted from CMYK to RGB",)


def test_more_than_eight_bits(tmp_path: Path) -> None:
    """16 bits become 8 without being cut off, which is noted; floating-point numbers too."""
    wide = Image.fromarray(GRADIENT.astype(np.uint16) * 257)
    photo = read_photo(_saved(tmp_path / "wide.png", wide))
    assert (photo.pixels == GRADIENT[..., None]).all()
    assert photo.notes == ("reduced to 8 bits",)
    numbers = Image.fromarray(GRADIENT.astype(np.float32))
    assert read_photo(_saved(tmp_path / "numbers.tiff", numbers)).pixels.max() == 255


@pytest.mark.parametrize("suffix", ["png", "jpg", "tiff", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_photos_are_upright(tmp_path: Path, suffix: str, orientation: int) -> None:
    """Every turn that EXIF can ask for is made, and the size is that of the upright photo."""
    corner = np.zeros((8, 12), np.uint8)
    corner[:4, :6] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = _saved(tmp_path / f"photo.{suffix}", Image.fromarray(corner).convert("RGB"), exif=exif)
    photo = read_photo(path)
    with Image.open(path) as image:
        upright = ImageOps.exif_transpose(image)
    assert photo.size == photo.pixels.shape[:2] == ((8, 12) if orientation < 5 else (12, 8))
    assert (photo.pixels == np.array(upright.convert("RGB"))).all()
    # Pillow turns a TIFF while it decodes it.
    assert bool(photo.notes) == (orientation > 1 and suffix != "tiff")


def test_what_is_transparent_is_put_on_white(tmp_path: Path) -> None:
    """A clear pixel is white, whatever colour hides in it; that is noted."""
    clear = Image.new("RGBA", (2, 2), (255, 0, 0, 0))
    photo = read_photo(_saved(tmp_path / "clear.png", clear))
    assert (photo.pixels == 255).all()
    assert photo.notes == ("transparent parts on white",)


@pytest.mark.parametrize("suffix", ["gif", "png", "webp", "tiff"])
def test_animations_show_their_first_frame(tmp_path: Path, suffix: str) -> None:
    """The first of several frames, and a note that says so."""
    frames = [Image.new("RGB", (4, 3), colour) for colour in ("#ff0000", "#0000ff", "#00ff00")]
    options: dict[str, Any] = {"lossless": True} if suffix == "webp" else {}
    path = tmp_path / f"frames.{suffix}"
    frames[0].save(path, save_all=True, append_images=frames[1:], **options)
    photo = read_photo(path)
    assert photo.pixels[0, 0].tolist() == [255, 0, 0]
    assert "the first of several frames" in photo.notes


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_a_large_photo_is_reduced(tmp_path: Path, suffix: str) -> None:
    """4000 x 3000 pixels are kept as 2048 x 1536, with their means; the size is the file's."""
    pixels = np.zeros((3000, 4000, 3), np.uint8)
    pixels[:, 2000:] = 200
    exif = Image.Exif()
    exif[0x0112] = 6
    photo = read_photo(_saved(tmp_path / f"large.{suffix}", Image.fromarray(pixels), exif=exif))
    assert photo.size == (4000, 3000)
    assert photo.pixels.shape == (2048, 1536, 3)
    assert np.abs(photo.pixels[:1000].astype(int)).max() <= 3
    assert np.abs(photo.pixels[1100:].astype(int) - 200).max() <= 3


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("text.png", b"not a picture", "is not a valid picture"),
        ("empty.jpg", b"", "is not a valid picture"),
        ("cut.png", None, "is damaged: image file is truncated; use a complete copy"),
        (
            "cut.jpg",
            None,
            r"is damaged: image file is truncated \(\d+ bytes not .*; use a complete",
        ),
        ("photo.heic", b"\0\0\0\x18ftypheic" + bytes(64), "is a HEIC or AVIF photo: use a PNG"),
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
    """One of many pixels is refused by its size, before it is decoded; a JPEG may have more."""
    large = Image.new("1", (10000, 6000))
    with pytest.raises(UsageError, match=r"10000 x 6000 pixels \(limit 50,000,000\)"):
        read_photo(_saved(tmp_path / "large.png", large))
    photo = read_photo(_saved(tmp_path / "large.jpg", large))
    assert (photo.size, photo.pixels.shape) == ((6000, 10000), (1229, 2048, 3))
    with pytest.raises(UsageError, match=r"16000 x 8000 pixels \(limit 120,000,000\)"):
        read_photo(_saved(tmp_path / "larger.jpg", Image.new("1", (16000, 8000))))


@pytest.mark.parametrize("format", FORMATS)
def test_pictures_are_recognised_by_their_content(tmp_path: Path, format: str) -> None:  # noqa: A002
    """A picture of any name is one."""
    path = _saved(tmp_path / "net.safetensors", Image.fromarray(GRADIENT), format=format)
    assert is_picture(path)


def test_what_is_not_recognised_as_a_picture(tmp_path: Path) -> None:
    """Weights called photo.png, an empty file, a folder, a missing file."""
    (tmp_path / "photo.png").write_bytes((300).to_bytes(8, "little") + b"{" + bytes(300))
    (tmp_path / "empty.png").touch()
    others = ("photo.png", "empty.png", ".", "nothing")
    assert not any(is_picture(tmp_path / name) for name in others)
