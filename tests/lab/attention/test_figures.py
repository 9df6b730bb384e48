"""What the figures of attention show."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from scalednl.lab.attention.colours import palette
from scalednl.lab.attention.figures import MapPanel, blended, draw_maps, draw_overlays
from scalednl.lab.attention.queries import cell_of
from scalednl.lab.attention.run import DrawOptions, choose
from scalednl.lab.attention.scoring import observe
from scalednl.lab.attention.source import open_source
from tests.lab.attention.builders import made_run


@pytest.fixture(scope="module")
def panel(tmp_path_factory: pytest.TempPathFactory) -> MapPanel:
    """Two heads of a scaled block, asked from one pixel of the first test image."""
    path: Path = made_run(tmp_path_factory.mktemp("runs") / "scaled", blocks=1, heads=2)
    source = open_source(path, images=2)
    return choose(source, observe(source)[0], DrawOptions(queries=((5, 3),)))


def test_complete_maps_are_drawn_as_they_are(panel: MapPanel) -> None:
    """Both pictures of a network hold the map of its first head; signed colours are white at 0."""
    figure = draw_maps([panel])
    hot, signed = (axes.images[0] for axes in figure.axes[:2])
    truth = panel.seen.map(0, 0).numpy()
    for image in (hot, signed):
        assert np.array_equal(np.asarray(image.get_array()), truth)
    assert hot.get_clim() == (truth.min(), truth.max())
    assert signed.get_clim() == (-np.abs(truth).max(), np.abs(truth).max())


def test_titles_of_maps_are_not_cut(panel: MapPanel) -> None:
    """Long names are wrapped inside the figure, beside each other too."""
    figure = draw_maps([replace(panel, title="cifar10-preresnet20-scaled-short-" * 3)] * 2)
    figure.draw_without_rendering()
    left, right = (axes.title.get_window_extent() for axes in figure.axes[:2])
    assert left.x0 >= 0
    assert left.x1 <= right.x0
    assert right.x1 <= figure.bbox.width
    assert left.y1 <= figure.bbox.height


def test_overlays_mark_the_query(panel: MapPanel) -> None:
    """One picture of the image and one per head; the frame is around the query's cell."""
    figure = draw_overlays([panel])
    cells, pixels = panel.seen.query_size, panel.observed.picture.pixels.shape
    row, column = 5 * cells[0] // pixels[0], 3 * cells[1] // pixels[1]
    framed = [axes for axes in figure.axes if axes.patches]
    assert [axes.texts[0].get_text() for axes in framed] == [
        *("query: row 5, column 3", "head 0", "head 1")
    ]
    for axes in framed:
        frame = axes.patches[0]
        assert isinstance(frame, Rectangle)
        middle = frame.get_center()
        assert middle[0] == pytest.approx((column + 0.5) * pixels[1] / cells[1] - 0.5)
        assert middle[1] == pytest.approx((row + 0.5) * pixels[0] / cells[0] - 0.5)


def _scales(figure: Figure) -> list[Axes]:
    """The axes below pictures that have colours and numbers."""
    return [axes for axes in figure.axes if axes.images and not axes.patches]


def test_overlays_have_a_legend(panel: MapPanel) -> None:
    """A scale below every picture has its values and colours; words name network, block, image."""
    figure = draw_overlays([panel])
    scales = _scales(figure)
    assert len(scales) == 2
    for head, axes in enumerate(scales):
        cell = cell_of((5, 3), panel.observed.picture.size, panel.seen.query_size)
        high = float(panel.seen.rows(0, head, [cell]).abs().max())
        texts = [text.get_text().replace("\N{MINUS SIGN}", "-") for text in axes.texts]
        assert [float(text) for text in texts] == pytest.approx([-high, 0, high], rel=0.06)
        assert all(len(text) <= 6 for text in texts)
        colours = np.asarray(axes.images[0].get_array())
        assert np.allclose(colours[0, 0], palette("signed")[0] / 255)
        assert np.allclose(colours[0, -1], palette("signed")[255] / 255)
    words = " ".join(text.get_text() for text in figure.texts).replace("\n", " ")
    assert "scaled: scaled, block 0 (stack.0), test image" in words
    assert "The frame marks the query. Orange: positive" in words


def test_the_scale_of_softmax_begins_at_0(tmp_path: Path) -> None:
    """Weights without signs have a scale from 0 to the largest."""
    source = open_source(made_run(tmp_path / "run", attention="softmax", blocks=1), images=2)
    chosen = choose(source, observe(source)[0], DrawOptions(head=0, queries=((5, 3),)))
    (scale,) = _scales(draw_overlays([chosen]))
    assert scale.texts[0].get_text() == "0"


@pytest.mark.parametrize(("heads", "queries"), [(1, 1), (2, 3)])
def test_nothing_of_overlays_is_cut_or_overlaps(panel: MapPanel, heads: int, queries: int) -> None:
    """All words are inside the figure, and none is on another, with long names too."""
    places = tuple((row, 3) for row in range(queries))
    long = replace(panel, title="a-run-of-a-long-name-" * 5, heads=panel.heads[:heads])
    figure = draw_overlays([replace(long, queries=places), replace(panel, queries=places)])
    figure.draw_without_rendering()
    texts = [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]
    boxes = [text.get_window_extent() for text in texts]
    for box in boxes:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.width
        assert box.y1 <= figure.bbox.height
    for first, second in combinations(boxes, 2):
        assert not first.overlaps(second)


def test_blended_images_show_signs_and_strengths() -> None:
    """Where attention is largest its colour hides the image; where it is 0 the image is grey."""
    pixels = np.full((2, 2, 3), 100, np.uint8)
    found = blended(pixels, torch.tensor([[4.0, 0.0], [0.0, -4.0]]))
    ends = palette("signed") / 255
    assert np.allclose(found[0, 0], ends[255])
    assert np.allclose(found[1, 1], ends[0])
    assert np.allclose(found[0, 1], 0.35 + 0.65 * 100 / 255)
