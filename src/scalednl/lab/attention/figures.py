"""Figures of attention: complete maps as in the paper's Figure 1, and what pixels attend to."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.ticker
import numpy as np
import numpy.typing as npt
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
CELL, GAP, CAPTION, HEADING = 1.45, 0.06, 0.22, 0.28
"""Inches: the width of one picture, and what is between, below and above pictures"""
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
    def about(self) -> str:
        """Which block it is, for a caption."""
        return f"{self.seen.block.attention}, block {self.block}"


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
            grid[0, column].set_title(f"{panel.title}\n{panel.about}, head {head}")
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

    Orange is positive, purple negative; every picture has its own range, printed below it.
    """
    columns = 1 + max(len(panel.heads) for panel in panels)
    heights = [_cell_height(panel) for panel in panels]
    rows = sum(
        HEADING + len(panel.queries) * (height + CAPTION)
        for panel, height in zip(panels, heights, strict=True)
    )
    width, top = columns * (CELL + GAP) + GAP, rows
    figure = Figure(figsize=(width, rows), dpi=DPI)
    with matplotlib.rc_context(STYLE):
        for panel, height in zip(panels, heights, strict=True):
            heading = f"{panel.title}: {panel.about}"
            figure.text(GAP / width, (top - HEADING / 2) / rows, heading, va="center", fontsize=8.5)
            top -= HEADING
            for query in panel.queries:
                boxes = [
                    (GAP + k * (CELL + GAP), top - height, CELL, height) for k in range(columns)
                ]
                places = [(x / width, y / rows, w / width, h / rows) for x, y, w, h in boxes]
                _draw_row([figure.add_axes(place) for place in places], panel, query)
                top -= height + CAPTION
    return figure


def _cell_height(panel: MapPanel) -> float:
    high, wide, _ = panel.observed.picture.pixels.shape
    # A picture much taller than wide is drawn smaller within a cell of bounded height.
    return CELL * min(3.0, high / wide)


def _draw_row(row: Sequence[Axes], panel: MapPanel, query: ImagePlace) -> None:
    pixels, seen = panel.observed.picture.pixels, panel.seen
    for axes in row:
        axes.set_axis_off()
    cell = cell_of(query, pixels.shape[:2], seen.query_size)
    row[0].imshow(pixels, interpolation="nearest")
    _caption(row[0], f"from row {query[0]}, column {query[1]}")
    _mark(row[0], cell, seen.query_size, pixels.shape)
    for axes, head in zip(row[1:], panel.heads, strict=False):
        values = seen.rows(0, head, [cell])[0].reshape(seen.key_size)
        axes.imshow(blended(pixels, values), interpolation="nearest")
        _mark(axes, cell, seen.query_size, pixels.shape)
        low, high = _short(float(values.min())), _short(float(values.max()))
        reach = f"up to {high}" if seen.factors.softmax else f"{low} to {high}"
        _caption(axes, f"head {head}: {reach}")


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
    axes.text(0.5, -0.03, text, transform=axes.transAxes, ha="center", va="top", fontsize=7)


def _short(value: float) -> str:
    return f"{value:.2g}".replace("-", "\N{MINUS SIGN}")


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
