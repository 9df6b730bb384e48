"""A picture of some images of a data set, each above the name of its class."""

import math

from PIL import Image, ImageDraw, ImageFont

from scalednl.lab.data.splits import ImageData

WIDTH = 160
"""The width of one image on the sheet"""
GAP, CAPTION = 16, 36
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
PAPER, INK = "#ffffff", "#1b1b1f"


def draw_sheet(data: ImageData, images: int = 12, seed: int = 0) -> Image.Image:
    """A sheet of training images, the classes in their proportions, six in a row."""
    chosen = data.train.subset(images, seed)
    height = round(WIDTH * chosen.images.shape[1] / chosen.images.shape[2])
    columns = min(6, images)
    rows = math.ceil(images / columns)
    size = (columns * (WIDTH + GAP) + GAP, rows * (height + CAPTION + GAP) + GAP)
    sheet = Image.new("RGB", size, PAPER)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(15)
    for index in range(images):
        row, column = divmod(index, columns)
        left, top = GAP + column * (WIDTH + GAP), GAP + row * (height + CAPTION + GAP)
        picture = Image.fromarray(chosen.images[index])
        sheet.paste(picture.resize((WIDTH, height), Image.Resampling.NEAREST), (left, top))
        name = data.class_names[int(chosen.labels[index])]
        place = (left + WIDTH / 2, top + height + CAPTION / 2)
        pen.text(place, _short(name, pen, font), INK, font, anchor="mm")
    return sheet


def _short(name: str, pen: ImageDraw.ImageDraw, font: Font) -> str:
    """The name, cut where it would run into its neighbour."""
    if pen.textlength(name, font) <= WIDTH:
        return name
    while name and pen.textlength(f"{name}...", font) > WIDTH:
        name = name[:-1]
    return f"{name}..."
