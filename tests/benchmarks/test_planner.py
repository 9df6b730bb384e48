"""The planner's regret."""

import pytest

from benchmarks import planner
from benchmarks.records import PlannerRecord, PlannerShape
from tests.lab.bench.builders import Show, Shown


def test_it_shows_regret(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each shape has a pick, the fastest, and the ratio of their times."""
    shapes = [PlannerShape(4, 8, side, 8, 4, mode) for side in (4, 20) for mode in (True, False)]
    monkeypatch.setattr(planner, "shapes", lambda _: shapes)
    shown: Shown[PlannerRecord] = show(planner.run)
    assert [row.shape for row in shown.record.rows] == shapes
    for row in shown.record.rows:
        fastest = min(row.times.values(), key=lambda time: time.median_ms)
        assert row.times[row.fastest] == fastest
        assert row.regret == round(row.times[row.picked].ratio(fastest), 4) >= 1
    assert "gram" in shown.text
    assert shown.charts == ["planner"]


def test_the_grid_has_the_shapes_that_the_readme_counts() -> None:
    """78 shapes in full, half of them in training."""
    shapes = planner.shapes(quick=False)
    assert len(shapes) == len(set(shapes)) == 78
    assert sum(shape.training for shape in shapes) == 39
