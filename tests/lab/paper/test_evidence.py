"""The declared plan of the evidence."""

import json
from pathlib import Path

from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.evidence import declared_plan, evidence_lines
from scalednl.lab.paper.scales import SCALES

ROOT = Path(__file__).parents[3]


def test_the_declared_plan_is_the_one_in_the_repository() -> None:
    """What was committed before the first run is what the code does: lines, looks, margins."""
    declared = json.loads((ROOT / "results/lite/plan.json").read_text(encoding="utf-8"))
    assert declared == declared_plan(SCALES["lite"])


def test_every_training_of_a_line_exists_at_the_lite_scale() -> None:
    """No line silently loses a training; those with none say what they wait for."""
    for line in evidence_lines():
        assert len(line.artefact.trainings(SCALES["lite"])) == len(line.cells)
        assert line.cells or "waits" in line.decides


def test_no_training_is_declared_twice() -> None:
    """Every training belongs to one line."""
    cells = [
        experiment.cell
        for line in evidence_lines()
        for _, experiment in line.artefact.trainings(SCALES["lite"])
    ]
    assert len(cells) == len(set(cells))


def test_attention_is_recorded_for_the_trainings_of_figure_1() -> None:
    """The lines whose maps are shown have all of Figure 1's trainings, and no other blocks."""
    lite = SCALES["lite"]
    shown = {
        experiment.cell
        for line in evidence_lines()
        for _, experiment in line.artefact.trainings(lite)
        if line.shows_maps and experiment.blocks
    }
    figure = artefacts()["figure1_attention_maps"]
    assert figure.shows_maps
    assert shown == {experiment.cell for _, experiment in figure.trainings(lite)}
