"""The contact sheet shows each image above the name of its class."""

import numpy as np

from scalednl.lab.data.contact_sheet import CAPTION, GAP, WIDTH, draw_sheet
from scalednl.lab.data.splits import ImageData, Split


def _data(names: list[str]) -> ImageData:
    """Images of one grey value per class."""
    labels = np.arange(8) % len(names)
    images = np.broadcast_to(labels[:, None, None, None] * 100 + 20, (8, 4, 8, 3)).astype(np.uint8)
    split = Split(images, labels)
    return ImageData("grey", split, split, names, (0.5,) * 3, (0.25,) * 3)


def test_images_stand_in_rows_of_six() -> None:
    """Seven images of 4 x 8 pixels need two rows, and keep their proportions and colours."""
    sheet = draw_sheet(_data(["a", "b"]), images=7)
    row = WIDTH // 2 + CAPTION + GAP
    assert sheet.size == (6 * (WIDTH + GAP) + GAP, 2 * row + GAP)
    colours = {sheet.getpixel((GAP + 5 + k * (WIDTH + GAP), GAP + 5)) for k in range(6)}
    assert colours == {(20, 20, 20), (120, 120, 120)}
    assert sheet.getpixel((GAP + 5 + WIDTH + GAP, GAP + 5 + row)) == (255, 255, 255)


def test_long_names_are_cut() -> None:
    """A name wider than its image ends before the next one: the gap stays empty."""
    sheet = np.asarray(draw_sheet(_data(["a very long name of a class" * 5] * 1), images=2))
    caption = slice(GAP + WIDTH // 2, GAP + WIDTH // 2 + CAPTION)
    assert (sheet[caption, GAP + WIDTH + 1 : GAP + WIDTH + GAP - 1] == 255).all()
    assert (sheet[caption, GAP : GAP + WIDTH] != 255).any()
