"""A map that is attended to in tiles."""

import pytest
import torch

from scalednl.errors import CommandError
from scalednl.lab.bench import tiles
from scalednl.lab.bench.peak import Peak


def test_tiles_agree_with_all_pixels_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four tiles, each as exact as float32; the size of one is reported beside the peak."""
    monkeypatch.setattr(tiles, "TILE", 8)
    monkeypatch.setattr(tiles, "peak_of", lambda *_, **__: Peak(123, 0.1))
    found = tiles.tiled_pass(16)
    assert (found.side, found.tiles, found.peak_bytes) == (16, 4, 123)
    assert found.tile_bytes == 64 * 8 * 8 * 4
    assert found.error < 1e-5
    tiles.tiled_step(16)()


def test_tiles_that_disagree_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map whose second pass sees other tiles than the first is an error."""
    monkeypatch.setattr(tiles, "TILE", 8)
    real, calls = tiles._tile, iter(range(100))
    monkeypatch.setattr(tiles, "_tile", lambda r, c: real(r, c) + 0.1 * next(calls))
    with pytest.raises(CommandError, match="a map of 16x16 in tiles"), torch.no_grad():
        tiles.tiled_pass(16)
