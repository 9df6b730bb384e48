"""Growth over sizes, the largest map within a budget, and a pass in tiles."""

from typing import Any

import pytest

from scalednl.lab.bench import budget, scaling, tiles
from scalednl.lab.bench.peak import Peak
from tests.lab.bench.builders import Show


def _made_up_peak(_: object, *arguments: Any, **__: Any) -> Peak:
    """Softmax takes 8 bytes per pair of pixels, all else 1 KiB per pixel; time follows."""
    if len(arguments) == 1:
        return Peak(2**20, 0.0)
    method, _, side = arguments[:3]
    pixels = side * side
    if method == "softmax plain":
        return Peak(8 * pixels**2, 1e-9 * pixels**2)
    return Peak(1024 * pixels, 1e-7 * pixels * (pixels if method == "softmax fused" else 1))


def test_it_shows_growth_and_what_is_left_out(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times by size, exponents, and a reason where a map would not fit."""
    monkeypatch.setattr(scaling, "SIDES", (4, 8, 16))
    monkeypatch.setattr(scaling, "WIDTHS", (16, 32))
    monkeypatch.setattr(scaling, "CHANNELS", 16)
    monkeypatch.setattr(scaling, "SIDE", 4)
    monkeypatch.setattr(budget, "peak_of", _made_up_peak)
    monkeypatch.setattr(tiles, "peak_of", _made_up_peak)
    shown = show(scaling.run, 2**20)
    assert "softmax plain, forward + backward" in shown.text
    left_out = [point for point in shown.record.by_side if point.time is None]
    assert {(point.method, point.left_out) for point in left_out} == {
        ("softmax plain", "over 1.0 MiB")
    }
    assert len(shown.record.exponents) == 8
    assert shown.record.tiles.error < 1e-5
    assert shown.charts == ["scaling"]


def test_the_largest_map_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest multiple of 8 within the budget; extrapolated where a step takes too long."""
    monkeypatch.setattr(budget, "peak_of", _made_up_peak)
    found = {one.method: one for one in budget.largest_maps(2**30, 60.0, 64, "cpu")}
    assert (found["softmax plain"].side, found["softmax plain"].measured) == (104, True)
    assert (found["auto"].side, found["auto"].measured) == (1024, True)
    assert (found["softmax fused"].side, found["softmax fused"].measured) == (1024, False)
