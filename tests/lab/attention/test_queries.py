"""The pixels whose attention is shown where nobody names some."""

from dataclasses import replace

import numpy as np
import pytest

from scalednl.lab.attention.queries import cell_of, grating_queries, spread_queries
from scalednl.lab.config import PairsConfig, RecallConfig
from scalednl.lab.data import load_data
from scalednl.lab.data.splits import Bytes

NEAR = 2


def _test_images(data: str, noise: float | None = None) -> Bytes:
    """Forty test images of a generated data set, with its default noise or another."""
    config: PairsConfig | RecallConfig
    config = PairsConfig(test_images=40) if data == "pairs" else RecallConfig(test_images=40)
    config = replace(config, train_images=1, noise=config.noise if noise is None else noise)
    return load_data(config.name, options=config).test.images


@pytest.mark.parametrize("data", ["pairs", "recall"])
def test_generated_images_have_a_query_in_a_grating_of_each_edge(data: str) -> None:
    """One in the left half and one in the right, both on or beside pixels that were drawn."""
    for pixels, drawing in zip(_test_images(data), _test_images(data, 0.01), strict=True):
        drawn = (np.abs(drawing.astype(int) - 128) > 20).any(2)
        (row, left), (other, right) = grating_queries(pixels)
        assert left < 10
        assert right >= 30
        for y, x in ((row, left), (other, right)):
            assert drawn[max(0, y - NEAR) : y + NEAR + 1, max(0, x - NEAR) : x + NEAR + 1].any()


def test_queries_are_inside_images_of_any_size() -> None:
    """Images of one pixel and of odd sizes too; a pixel falls into the cell of its share."""
    for height, width in ((1, 1), (5, 3)):
        for row, column in spread_queries((height, width)):
            assert 0 <= row < height
            assert 0 <= column < width
    assert cell_of((31, 0), (32, 24), (16, 12)) == (15, 0)
