"""Photos at the size that a network receives, and at the size that readers see."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scalednl.errors import UsageError
from scalednl.lab.attention.picture import PhotoSize, photo_picture

TRAINED = PhotoSize(32, forced=False, reason="because")


def _photo(folder: Path, width: int, height: int, name: str = "photo.png") -> Path:
    pixels = (
        np.arange(height * width, dtype=np.uint32).reshape(height, width) * 256 // (height * width)
    )
    Image.fromarray(pixels.astype(np.uint8)).save(folder / name)
    return folder / name


@pytest.mark.parametrize(
    ("own", "size", "seen", "note"),
    [
        ((400, 300), TRAINED, (32, 43), "as 43 x 32 pixels, because"),
        ((300, 400), TRAINED, (43, 32), "as 32 x 43 pixels, because"),
        ((20, 12), TRAINED, (12, 20), "as it is"),
        ((20, 12), PhotoSize(24, forced=True), (24, 40), "as 40 x 24 pixels"),
        ((9000, 2), PhotoSize(1, forced=True), (1, 4500), "as 4500 x 1 pixels"),
    ],
)
def test_the_shorter_side_decides(
    tmp_path: Path, own: tuple[int, int], size: PhotoSize, seen: tuple[int, int], note: str
) -> None:
    """Proportions stay; small photos are enlarged on request only; notes say what was done."""
    picture = photo_picture(_photo(tmp_path, *own), 0, size)
    assert picture.pixels.shape == (*seen, 3)
    assert picture.size == own[::-1]
    assert picture.notes == (f"shown to the network {note}",)


def test_readers_see_more_than_the_network(tmp_path: Path) -> None:
    """A large photo is shown with 480 pixels on its longer side, a small one as it is."""
    large = photo_picture(_photo(tmp_path, 960, 600), 0, TRAINED)
    assert large.shown.shape == (300, 480, 3)
    # A gradient is the same one at every size.
    assert abs(large.shown.mean() - large.pixels.mean()) < 1
    assert photo_picture(_photo(tmp_path, 20, 12), 0, TRAINED).shown.shape == (12, 20, 3)


def test_too_many_pixels_for_a_network(tmp_path: Path) -> None:
    """The sentence names the largest size that would work, and that works."""
    path = _photo(tmp_path, 400, 300)
    with pytest.raises(UsageError, match=r"would be 4000 x 3000 .* use --resize 432 or less"):
        photo_picture(path, 0, PhotoSize(3000, forced=True))
    assert photo_picture(path, 0, PhotoSize(432, forced=True)).pixels.shape == (432, 576, 3)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """A file name that is not valid UTF-8 becomes one that a record can hold."""
    name = b"caf\xe9.png".decode("utf-8", "surrogateescape")
    assert photo_picture(_photo(tmp_path, 20, 12, name), 0, TRAINED).title == "caf\\udce9.png"
