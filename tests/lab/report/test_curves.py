"""Learning curves."""

from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.recipes import find_recipe
from scalednl.lab.records.runs import RunRecord, by_cell, find_runs
from scalednl.lab.report import curves
from scalednl.lab.report.curves import (
    attention_of,
    colour_of,
    learning_curves,
    order_of,
    other_curves,
)
from tests.lab.charts.builders import SVG, parsed, texts
from tests.lab.report.builders import cell_experiment, write_run

SCALED = find_recipe("pairs-scaled")
PLACE = ("pairs", "preresnet8")


def _marked(chart: str) -> list[str]:
    return [one.text or "" for one in parsed(chart).iter(f"{SVG}title")]


def _groups(folder: Path) -> list[list[RunRecord]]:
    return list(by_cell(find_runs([folder])).values())


def test_a_curve_is_the_mean_of_finished_runs(tmp_path: Path) -> None:
    """Epochs are counted from 1, the band is their range; an unfinished run waits."""
    for seed, errors in enumerate(([60.0, 20.0], [70.0, 40.0])):
        write_run(tmp_path / str(seed), replace(SCALED, seed=seed), errors)
    write_run(tmp_path / "cut", replace(SCALED, seed=9), [1.0], "interrupted")
    (figure,) = other_curves({PLACE: _groups(tmp_path)})
    assert figure.title == "pairs (generated), PreResNet-8"
    name = "scaled, 1 block, 4 heads"
    assert _marked(figure.chart) == [f"{name}: 65", f"{name}: 30"]
    assert len(list(parsed(figure.chart).iter(f"{SVG}polygon"))) == 1


def test_a_run_without_tests_is_not_drawn(tmp_path: Path) -> None:
    """While nothing has finished, what there is is drawn, without a band for one run."""
    write_run(tmp_path / "cut", SCALED, [50.0], "interrupted")
    (figure,) = other_curves({PLACE: _groups(tmp_path)})
    assert not list(parsed(figure.chart).iter(f"{SVG}polygon"))
    write_run(tmp_path / "cut", SCALED, [], "interrupted")
    assert list(other_curves({PLACE: _groups(tmp_path)})) == []


def test_long_runs_are_thinned_and_keep_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other epoch, and the last."""
    monkeypatch.setattr(curves, "POINTS", 4)
    write_run(tmp_path / "run", SCALED, [90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0])
    (figure,) = other_curves({PLACE: _groups(tmp_path)})
    said = [text.rpartition(": ")[2] for text in _marked(figure.chart)]
    assert said == ["90", "70", "50", "30", "20"]


@pytest.mark.parametrize("errors", [[[50.0 + n] for n in range(9)], [[50.0]] * 9])
def test_kinds_take_turns_until_a_plot_is_full(tmp_path: Path, errors: list[list[float]]) -> None:
    """Nine scaled trainings do not hide the one of softmax, equal curves or not."""
    for number, one in enumerate(errors):
        write_run(tmp_path / f"{number}", replace(SCALED, lr=0.01 * (number + 1)), one)
    write_run(tmp_path / "softmax", find_recipe("pairs-softmax"), [40.0])
    (figure,) = other_curves({PLACE: _groups(tmp_path)})
    assert len(_marked(figure.chart)) == curves.CURVES
    assert "2 more trainings are not drawn; their numbers are below." in texts(figure.chart)
    assert any(text.startswith("softmax") for text in _marked(figure.chart))


def test_kinds_of_attention_share_a_plot_or_have_columns(tmp_path: Path) -> None:
    """Columns of a table are plots; rows of the same cell are its lines."""
    table = artefacts()["table1_importance"]
    for row in ("softmax", "scaled"):
        for column in ("base", "direction"):
            experiment = cell_experiment(table.name, row, column)
            write_run(tmp_path / f"{row}-{column}", experiment, [60.0, 30.0])
    (figure,) = learning_curves(table, by_cell(find_runs([tmp_path])))
    assert figure.title == "pairs (generated), PreResNet-8, scale smoke"
    assert {"base", "direction", "softmax", "scaled"} <= texts(figure.chart).keys()
    assert "magnitude" not in texts(figure.chart)


def test_kinds_have_an_order_and_a_colour() -> None:
    """What is not known comes last and is purple."""
    kinds = ("mine", "scaled", "plain", "softmax")
    assert sorted(kinds, key=order_of) == ["plain", "softmax", "scaled", "mine"]
    assert colour_of("mine") == "purple"
    assert attention_of(find_recipe("pairs-plain")) == "plain"
    assert attention_of(SCALED) == "scaled"
