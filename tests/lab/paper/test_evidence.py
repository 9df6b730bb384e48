"""The declared plan of the evidence."""

import json
from dataclasses import replace
from pathlib import Path

from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.claims import claims
from scalednl.lab.paper.evidence import declared_plan, evidence_lines
from scalednl.lab.paper.scales import SCALES

ROOT = Path(__file__).parents[3]


def test_the_declared_plan_is_the_one_in_the_repository() -> None:
    """What was committed before the first run is what the code does: lines, looks, margins."""
    declared = json.loads((ROOT / "results/lite/plan.json").read_text(encoding="utf-8"))
    assert declared == declared_plan(SCALES["lite"])


def test_every_training_of_a_line_exists_at_the_lite_scale() -> None:
    """No line silently loses a training, and none is without."""
    for line in evidence_lines():
        assert len(line.artefact.trainings(SCALES["lite"])) == len(line.cells)
        assert line.cells


def test_centred_keys_are_compared_with_the_scaled_blocks_of_line_1() -> None:
    """Line 7 differs from line 1's scaled training in its keys alone; its claim has both."""
    lite = SCALES["lite"]
    lines = {line.number: line.artefact.trainings(lite) for line in evidence_lines()}
    (_, centred), scaled = lines[7][0], lines[1][2][1]
    assert replace(scaled, block=replace(scaled.block, center="keys")) == centred
    (claim,) = (claim for claim in claims() if claim.name == "centred-keys-help")
    assert not claim.is_primary
    assert (scaled, centred) in [experiments for _, experiments in claim.at(lite)]


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
