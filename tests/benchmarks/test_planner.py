"""The planner's regret."""

import pytest

from benchmarks import planner
from benchmarks.records import PlannerRecord, PlannerRow, PlannerShape
from scalednl.lab.records.timing import Timing
from scalednl.ops.costs import CPU, Constants, cost
from scalednl.ops.planner import Choice, use_constants
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


def test_constants_are_fitted_to_the_times() -> None:
    """On times that are what some constants predict, the fit has no regret and CPU's has.

    Of constants that pick alike, those of a CPU are kept.
    """
    other = Constants(512, 16)
    rows = [_predicted(shape, other) for shape in planner.shapes(quick=True)]
    assert planner.fitted(rows).mean_regret == 1 < planner.fit_of(rows, CPU).mean_regret
    usual = planner.fitted([_predicted(row.shape, CPU) for row in rows])
    assert (usual.move, usual.narrow) == CPU
    assert use_constants() == CPU


def _predicted(shape: PlannerShape, constants: Constants) -> PlannerRow:
    """Times as the planner expects them."""
    state = planner._block(shape, "meta").state()
    pixels = shape.side**2
    choices = [Choice("associative"), Choice("gram"), Choice("quadratic")]
    choices += [Choice("gram", True)] if shape.training else []
    works = {str(c): cost(*c, state, pixels, pixels, constants=constants).work for c in choices}
    times = {name: Timing.of([work / 1e6]) for name, work in works.items()}
    return PlannerRow(shape, "gram", "gram", 1.0, 0.0, times)
