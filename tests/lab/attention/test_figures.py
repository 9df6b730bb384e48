"""What the figures of attention show."""

from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle

from scalednl.lab.attention.colours import palette
from scalednl.lab.attention.figures import MapPanel, blended, draw_maps, draw_overlays
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


def test_overlays_mark_the_query_and_name_the_range(panel: MapPanel) -> None:
    """One picture of the image and one per head; the frame is around the query's cell."""
    figure = draw_overlays([panel])
    assert len(figure.axes) == 1 + 2
    cells, pixels = panel.seen.query_size, panel.observed.picture.pixels.shape
    row, column = 5 * cells[0] // pixels[0], 3 * cells[1] // pixels[1]
    for axes in figure.axes:
        frame = axes.patches[0]
        assert isinstance(frame, Rectangle)
        middle = frame.get_center()
        assert middle[0] == pytest.approx((column + 0.5) * pixels[1] / cells[1] - 0.5)
        assert middle[1] == pytest.approx((row + 0.5) * pixels[0] / cells[0] - 0.5)
    values = panel.seen.rows(0, 1, [(row, column)])
    text = figure.axes[2].texts[0].get_text().replace("\N{MINUS SIGN}", "-")
    assert text == f"head 1: {float(values.min()):.2g} to {float(values.max()):.2g}"


def test_blended_images_show_signs_and_strengths() -> None:
    """Where attention is largest its colour hides the image; where it is 0 the image is grey."""
    pixels = np.full((2, 2, 3), 100, np.uint8)
    found = blended(pixels, torch.tensor([[4.0, 0.0], [0.0, -4.0]]))
    ends = palette("signed") / 255
    assert np.allclose(found[0, 0], ends[255])
    assert np.allclose(found[1, 1], ends[0])
    assert np.allclose(found[0, 1], 0.35 + 0.65 * 100 / 255)
