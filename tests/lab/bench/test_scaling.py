"""Growth over sizes, the largest map within a budget, and a pass in tiles."""

import pytest

from scalednl.lab.bench import budget, scaling, tiles
from tests.lab.bench.builders import Show, made_up_peak


def test_it_shows_growth_and_what_is_left_out(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times by size, exponents, and a reason where a map would not fit."""
    monkeypatch.setattr(scaling, "SIDES", (4, 8, 16))
    monkeypatch.setattr(scaling, "WIDTHS", (16, 32))
    monkeypatch.setattr(scaling, "CHANNELS", 16)
    monkeypatch.setattr(scaling, "SIDE", 4)
    monkeypatch.setattr(budget, "peak_of", made_up_peak)
    monkeypatch.setattr(tiles, "peak_of", made_up_peak)
    shown = show(scaling.run, 2**20)
    assert "softmax plain, forward + backward" in shown.text
    left_out = [point for point in shown.record.by_side if point.time is None]
    assert {(point.method, point.left_out) for point in left_out} == {
        ("softmax plain", "over 1.0 MiB")
    }
    assert len(shown.record.exponents) == 8
    assert shown.record.tiles.error < 1e-5
    assert shown.charts == ["scaling"]
