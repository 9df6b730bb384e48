"""Figures of attention: complete maps as in the paper's Figure 1, and what pixels attend to."""

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.ticker
import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from torch import Tensor

from scalednl.files import replacing
from scalednl.inspection.capture import BlockAttention
from scalednl.lab.attention.colours import COLOURS, NAMES, colour_range, palette, shrunk
from scalednl.lab.attention.queries import ImagePlace, cell_of
from scalednl.lab.attention.scoring import Observation

DPI = 150
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "svg.hashsalt": "scalednl",
}
CELLS = {4: 2.1, 6: 1.75, 99: 1.45}
"""Inches: the width of one picture where a row has at most so many"""
GAP, CAPTION, BAR, NUMBERS, LINE = 0.1, 0.2, 0.08, 0.24, 0.16
"""Inches: what is beside pictures; the words above them; the colour scale below them and its
numbers; a line of text"""
LETTERS = 15
"""Letters of a line of text per inch"""
LEGEND = (
    "The frame marks the query. Orange: positive weight of a key, purple: negative; the stronger "
    "the colour, the larger the weight. The scale below each picture has its values."
)
SMALLEST_MARK = 28
"""The width of a picture is at most so many times that of the query's frame"""
INK, PAPER = "#1b1b1f", "#ffffff"
Pixels = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MapPanel:
    """What one network shows in a figure."""

    title: str
    observed: Observation
    block: int
    heads: tuple[int, ...]
    queries: tuple[ImagePlace, ...]
    """Pixels of the image"""

    @property
    def seen(self) -> BlockAttention:
        """The block that is shown."""
        return self.observed.blocks[self.block]

    @property
    def picture(self) -> str:
        """Which picture it is, for a caption."""
        return f"{self.observed.picture.title} (taken for {self.observed.predicted})"

    @property
    def about(self) -> str:
        """Which block it is, for a caption."""
        return f"{self.seen.block.attention}, block {self.block} ({self.seen.name})"


def draw_maps(panels: Sequence[MapPanel]) -> Figure:
    """Figure 1: a map of every network, above in the colours of the authors' release, below signed.

    Rows are queries and columns keys, in row-major order; of the first head that is chosen.
    """
    with matplotlib.rc_context(STYLE):
        # The engine does not see how far labels reach beside square axes: it gets some air.
        engine = ConstrainedLayoutEngine(rect=(0.025, 0, 0.975, 1))
        figure = Figure(figsize=(0.6 + 3.1 * len(panels), 5.8), layout=engine, dpi=DPI)
        grid = figure.subplots(2, len(panels), squeeze=False)
        for column, panel in enumerate(panels):
            head = panel.heads[0]
            values = shrunk(panel.seen.map(0, head))
            # Wider than the axes and narrower than their column.
            title = textwrap.fill(panel.title, 40)
            grid[0, column].set_title(f"{title}\n{panel.about}, head {head}")
            for row, colours in enumerate(COLOURS):
                axes, (low, high) = grid[row, column], colour_range(values, colours)
                keys, queries = panel.seen.factors.keys, panel.seen.factors.queries
                shown = axes.imshow(
                    values.numpy(),
                    cmap=NAMES[colours],
                    vmin=low,
                    vmax=high,
                    interpolation="nearest",
                    extent=(0, keys, queries, 0),
                    aspect="auto",
                )
                axes.set_box_aspect(1)
                axes.set_xticks([0, keys])
                axes.set_yticks([0, queries])
                bar = figure.colorbar(shown, ax=axes, fraction=0.046, pad=0.02)
                bar.outline.set_linewidth(0.6)
                bar.locator = matplotlib.ticker.MaxNLocator(5)
                bar.update_ticks()
            grid[1, column].set_xlabel("key", labelpad=-4)
        for axes in grid[:, 0]:
            axes.set_ylabel("query", labelpad=0)
        return figure


def draw_overlays(panels: Sequence[MapPanel]) -> Figure:
    """What chosen pixels attend to: a row for each network and query, a column for each head.

    Orange is positive, purple negative; every picture has its own range, in the scale below it.
    """
    columns = 1 + max(len(panel.heads) for panel in panels)
    cell = next(inches for most, inches in CELLS.items() if columns <= most)
    width = columns * (cell + GAP) + GAP
    wrap = partial(textwrap.fill, width=int(width * LETTERS))
    headings = [wrap(f"{panel.title}: {panel.about}, {panel.picture}") for panel in panels]
    legend = wrap(LEGEND)
    heights = [cell * _aspect(panel) for panel in panels]
    rows = [CAPTION + height + BAR + NUMBERS for height in heights]
    height = _inches(legend) + sum(
        _inches(heading) + len(panel.queries) * row
        for panel, heading, row in zip(panels, headings, rows, strict=True)
    )
    figure = Figure(figsize=(width, height), dpi=DPI)
    page = _Page(figure, width, height)
    with matplotlib.rc_context(STYLE):
        for panel, heading, picture in zip(panels, headings, heights, strict=True):
            page.write(heading, weight="bold")
            for query in panel.queries:
                page.draw_row(panel, query, columns, (cell, picture))
        page.write(legend)
    return figure


@dataclass
class _Page:
    """A figure that is filled from the top."""

    figure: Figure
    width: float
    height: float
    used: float = 0.0
    """Inches"""

    def write(self, text: str, weight: str = "normal") -> None:
        """Lines of text across the page."""
        place = GAP / self.width, 1 - (self.used + LINE / 2) / self.height
        self.figure.text(*place, text, va="top", fontsize=7.5, fontweight=weight)
        self.used += _inches(text)

    def draw_row(
        self, panel: MapPanel, query: ImagePlace, columns: int, cell: tuple[float, float]
    ) -> None:
        """The picture with its query, and what each head attends to from there."""
        wide, high = cell
        pixels, seen = panel.observed.picture.shown, panel.seen
        at = cell_of(query, panel.observed.picture.size, seen.query_size)
        pictures = [self._axes(k, CAPTION, cell) for k in range(columns)]
        scales = [self._axes(k, CAPTION + high + 0.02, (wide, BAR)) for k in range(columns)]
        pictures[0].imshow(pixels)
        _caption(pictures[0], f"query: row {query[0]}, column {query[1]}")
        for axes in pictures[: 1 + len(panel.heads)]:
            _mark(axes, at, seen.query_size, pixels.shape)
        for axes, scale, head in zip(pictures[1:], scales[1:], panel.heads, strict=False):
            values = seen.rows(0, head, [at])[0].reshape(seen.key_size)
            axes.imshow(blended(pixels, values))
            _caption(axes, f"head {head}")
            _draw_scale(scale, values, signed=not seen.factors.softmax)
        self.used += CAPTION + high + BAR + NUMBERS

    def _axes(self, column: int, below: float, size: tuple[float, float]) -> Axes:
        """Axes in a column, so many inches below what is used."""
        wide, high = size
        left, bottom = GAP + column * (wide + GAP), self.height - self.used - below - high
        place = left / self.width, bottom / self.height, wide / self.width, high / self.height
        axes = self.figure.add_axes(place)
        axes.set_axis_off()
        return axes


def _inches(text: str) -> float:
    return LINE * (text.count("\n") + 2)


def _aspect(panel: MapPanel) -> float:
    high, wide, _ = panel.observed.picture.shown.shape
    # A picture much taller than wide is drawn smaller within a cell of bounded height.
    return min(3.0, high / wide)


def _draw_scale(axes: Axes, values: Tensor, *, signed: bool) -> None:
    """The colours of a picture over medium grey, with the values they stand for."""
    _, high = colour_range(values, "signed")
    low = -high if signed else 0.0
    grey = np.full((1, 128, 3), 128, np.uint8)
    axes.imshow(blended(grey, torch.linspace(low, high, 128)[None]), aspect="auto")
    for share, sign in ((0.0, low), (0.5, 0.0 if signed else high / 2), (1.0, high)):
        side = {0.0: "left", 0.5: "center", 1.0: "right"}[share]
        axes.text(
            *(share, -0.25, _short(sign)),
            transform=axes.transAxes,
            ha=side,
            va="top",
            fontsize=6.5,
        )


def blended(pixels: npt.NDArray[np.uint8], values: Tensor) -> Pixels:
    """The image in pale grey, coloured by attention as strongly as it is large."""
    height, width = pixels.shape[:2]
    grey = 0.35 + 0.65 * (pixels @ np.array([0.299, 0.587, 0.114]) / 255)
    # Nearest cell of every pixel, whatever the ratio of the sizes is.
    rows = np.arange(height) * values.shape[0] // height
    columns = np.arange(width) * values.shape[1] // width
    cells = values.numpy()[rows][:, columns]
    _, high = colour_range(values, "signed")
    steps = np.clip(np.rint((cells / high + 1) / 2 * 255), 0, 255).astype(int)
    colour = palette("signed")[steps] / 255
    strength = np.sqrt(np.abs(cells) / high)[..., None]
    return strength * colour + (1 - strength) * grey[..., None]


def _mark(axes: Axes, cell: ImagePlace, cells: tuple[int, ...], image: tuple[int, ...]) -> None:
    """A frame around the query's cell, never too small to see, on dark and on light."""
    steps = image[0] / cells[0], image[1] / cells[1]
    high, wide = (max(step, image[1] / SMALLEST_MARK) for step in steps)
    corner = (
        (cell[1] + 0.5) * steps[1] - wide / 2 - 0.5,
        (cell[0] + 0.5) * steps[0] - high / 2 - 0.5,
    )
    for colour, line in ((PAPER, 2.4), (INK, 1.0)):
        axes.add_patch(
            Rectangle(corner, wide, high, fill=False, edgecolor=colour, linewidth=line, zorder=3)
        )


def _caption(axes: Axes, text: str) -> None:
    axes.text(0.5, 1.02, text, transform=axes.transAxes, ha="center", va="bottom", fontsize=7)


def _short(value: float) -> str:
    """Two digits that count, without an exponent where numbers are not extreme."""
    return f"{float(f'{value:.2g}'):g}".replace("-", "\N{MINUS SIGN}")


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a PNG and an SVG file; each is complete or absent."""
    written = []
    for kind in ("png", "svg"):
        path = folder / f"{name}.{kind}"
        options: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {}
        content = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            figure.savefig(content, format=kind, **options)
        with replacing(path) as temporary:
            temporary.write_bytes(content.getvalue())
        written.append(path)
    return written
