"""The paper's tables and figures, printed values and ours side by side, at every scale there is."""

from dataclasses import replace
from typing import Any

from scalednl.lab.config import Experiment
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.grids import Artefact, Cell
from scalednl.lab.paper.scales import SCALES, Scale
from scalednl.lab.records.runs import Cells
from scalednl.lab.report.aggregate import describe_block, outcome
from scalednl.lab.report.formatting import data_words, network_words

MARKS = "†‡§¶"
"""Marks of inferred settings, in the order of their footnotes"""


def grid(runs: Cells) -> list[dict[str, Any]]:
    """Every table and figure."""
    return [_artefact(artefact, runs) for artefact in artefacts().values()]


def in_grid() -> set[str]:
    """The cells that stand in some table."""
    return {
        experiment.cell
        for scale in SCALES.values()
        for artefact in artefacts().values()
        for _, experiment in artefact.trainings(scale)
    }


def _notes(artefact: Artefact) -> dict[str, str]:
    """Every reason why a setting of the artefact is called inferred, with its mark."""
    reasons = dict.fromkeys((artefact.inferred, *(cell.inferred for cell in artefact.cells)))
    reasons.pop("", None)
    return dict(zip(reasons, MARKS[: len(reasons)], strict=True))


def _artefact(artefact: Artefact, runs: Cells) -> dict[str, Any]:
    groups = []
    notes = _notes(artefact)
    for scale in reversed(SCALES.values()):
        trainings = artefact.trainings(scale)
        has_ours = any(experiment.cell in runs for _, experiment in trainings)
        # The full scale always stands there, with the printed values at least.
        if has_ours or scale.name == "paper":
            rows = _rows(artefact, trainings, runs, scale)
            if scale.name != "paper":
                rows = [row for row in rows if any(c and c["ours"] for c in row["cells"].values())]
            group = {"scale": scale.name, "words": scale.words, "has_ours": has_ours, "rows": rows}
            groups.append(group)
    return {
        "name": artefact.name,
        "title": artefact.title,
        "caption": artefact.caption,
        "is_control": artefact.is_control,
        "mark": notes.get(artefact.inferred, ""),
        "notes": [{"mark": mark, "reason": reason} for reason, mark in notes.items()],
        "columns": list(artefact.columns),
        "has_printed": any(cell.printed is not None for cell in artefact.cells),
        "has_ours": any(group["has_ours"] for group in groups),
        "groups": groups,
    }


def _rows(
    artefact: Artefact, trainings: list[tuple[Cell, Experiment]], runs: Cells, scale: Scale
) -> list[dict[str, Any]]:
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    notes = _notes(artefact)
    for cell, experiment in trainings:
        place = (experiment.data, experiment.model, cell.row)
        row = rows.setdefault(
            place,
            {
                "data": experiment.data,
                "network": experiment.model,
                "row": cell.row,
                "stands_for": _stands_for(cell, experiment),
                "cells": dict.fromkeys(artefact.columns),
            },
        )
        row["cells"][cell.column] = {
            "printed": cell.printed,
            "inferred": cell.inferred,
            "mark": notes.get(cell.inferred, ""),
            "ours": outcome(experiment, runs, _softmax(cell, scale)),
            "trains": describe_block(experiment),
        }
    return list(rows.values())


def _softmax(cell: Cell, scale: Scale) -> Experiment | None:
    """The training of the same cell with softmax blocks, for cells of scaled ones."""
    setting = cell.setting
    if setting.attention != "scaled" or ("scale", False) in setting.options:
        return None
    return scale.experiment(replace(setting, attention="softmax"))


def _stands_for(cell: Cell, experiment: Experiment) -> dict[str, str | None]:
    """The paper's data set and network, where a miniature has others in their place."""
    data, network = cell.setting.data, cell.setting.network
    return {
        "data": None if data == experiment.data else data_words(data),
        "network": None if network == experiment.model else network_words(network),
    }
