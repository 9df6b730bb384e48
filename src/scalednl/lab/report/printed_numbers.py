"""What the paper's own numbers can carry: its differences with error bars, for page and files."""

from collections import Counter
from dataclasses import asdict
from functools import cache
from typing import Any

from scalednl.lab.charts import Dot, Row, dot_chart
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.grids import Artefact
from scalednl.lab.paper.printed_contrasts import (
    ASSUMED_SD,
    LARGER,
    SAME,
    PrintedContrast,
    design_powers,
    position_shares,
    printed_contrasts,
)
from scalednl.lab.paper.printed_noise import (
    MULTIPLE,
    Placebo,
    left_out_range,
    noise,
    noise_factor,
    pair_of_means,
    placebos,
    total,
)
from scalednl.lab.paper.provenance import provenance
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.recipes import CIFAR, TINY
from scalednl.lab.report.formatting import data_words, minus

CHART_START = -0.25
"""Left end of the chart's axes, in points"""


@cache
def printed_numbers() -> dict[str, Any]:
    """Noise, placebos, contrasts, power and contradictions of the printed tables.

    The result is shared by all callers, which must not change it.
    """
    contrasts = printed_contrasts()
    return {
        "multiple": MULTIPLE,
        "noise": {"cifar": _noise(CIFAR[0]), TINY: _noise(TINY)},
        "assumed_run_sd": ASSUMED_SD,
        "placebos": [_placebo(item) for item in placebos()],
        "position": _position(),
        "contrasts": _rows(contrasts),
        "counts": _counts(contrasts),
        "power": [
            {**asdict(item), "needed": item.needed, "power": item.power} for item in design_powers()
        ],
        "contradictions": [asdict(item) for item in provenance().contradictions],
        "provenance": [asdict(choice) for choice in provenance().choices],
        "chart": _chart(contrasts),
    }


def noise_caption(artefact: Artefact) -> str:
    """The error bar of a printed table's differences in a sentence; "" where nothing is printed."""
    data_sets = {cell.setting.data for cell in artefact.cells if cell.printed is not None}
    bars = []
    for members, words in ((CIFAR, "CIFAR"), ((TINY,), data_words(TINY))):
        if data_sets & set(members):
            bar = MULTIPLE * noise(members[0]).of(pair_of_means(_seeds(members[0])))
            bars.append(f"± {bar:.2f} points ({words})")
    if not bars:
        return ""
    return (
        f"A difference of two printed numbers carries {' or '.join(bars)}: {MULTIPLE:g} × the "
        "noise of the paper's own placebos."
    )


def _seeds(data: str) -> int:
    paper = SCALES["paper"]
    return paper.tiny_seeds if data == TINY else paper.seeds


def _noise(data: str) -> dict[str, Any]:
    """The noise of one run and of a difference of two printed means, with chi-square intervals."""
    found, seeds = noise(data), _seeds(data)
    factor = noise_factor(pair_of_means(seeds))
    low, high = found.interval
    values: dict[str, Any] = {
        "placebos": found.placebos,
        "seeds": seeds,
        "run_sd": found.run_sd,
        "run_sd_interval": [low, high],
        "difference": found.run_sd * factor,
        "difference_interval": [low * factor, high * factor],
    }
    if data in CIFAR:
        values["difference_one_placebo_left_out"] = [sd * factor for sd in left_out_range()]
    return values


def _placebo(item: Placebo) -> dict[str, Any]:
    return {"name": item.name, "data": item.data, "difference": item.difference}


def _position() -> list[dict[str, Any]]:
    return [
        {
            "data": item.data,
            "attention": item.attention,
            **{
                name: {"points": total(terms), "noise": noise(item.data).of(terms)}
                for name, terms in (
                    ("gain", item.gain),
                    ("position", item.position),
                    ("beyond", item.beyond),
                )
            },
            "share": item.share,
        }
        for item in position_shares()
    ]


def _rows(contrasts: tuple[PrintedContrast, ...]) -> list[dict[str, Any]]:
    """One row per claimed difference, with a cell for each data set that has it."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for item in contrasts:
        row = rows.setdefault(
            (item.table, item.name),
            {"table": item.table, "name": item.name, "claimed": item.claimed, "cells": {}},
        )
        row["cells"][item.data] = {
            "model": item.model,
            "difference": item.difference,
            "noise": item.noise,
            "assumed_noise": item.assumed_noise,
            "p": item.p,
            "answer": item.answer,
        }
    order = {name: index for index, name in enumerate(artefacts())}
    return sorted(rows.values(), key=lambda row: order[row["table"]])


def _counts(contrasts: tuple[PrintedContrast, ...]) -> dict[str, int]:
    """How many differences are claimed to be above 0, and what becomes of them."""
    claimed = [item for item in contrasts if item.claimed == "above 0"]
    answers = Counter(item.answer for item in claimed)
    larger = [item for item in claimed if item.answer == LARGER]
    return {
        "claimed": len(claimed),
        LARGER: answers[LARGER],
        SAME: answers[SAME],
        "larger, but t test above 0.05": sum(item.p > 0.05 for item in larger),
        "larger, but not at the assumed deviations": sum(
            item.assumed_noise is not None and abs(item.difference) <= MULTIPLE * item.assumed_noise
            for item in larger
        ),
    }


def _chart(contrasts: tuple[PrintedContrast, ...]) -> str:
    """Differences on the two CIFARs with bars of ±2 noise, the placebos above them."""
    rows = [Row("One training, printed twice (placebo)")]
    for name in dict.fromkeys(item.name for item in placebos()):
        at = {item.data: item for item in placebos() if item.name == name}
        columns = [[_dot(at[data], "purple")] if data in at else [] for data in CIFAR]
        rows.append(Row(name, "purple", columns))
    heading = ""
    for row in _rows(contrasts):
        found = {c.data: c for c in contrasts if (c.table, c.name) == (row["table"], row["name"])}
        if not found.keys() & set(CIFAR):
            continue
        if row["table"] != heading:
            heading = row["table"]
            rows.append(Row(artefacts()[heading].title))
        columns = [
            [_dot(found[data], "blue" if found[data].answer == LARGER else "grey")]
            if data in found
            else []
            for data in CIFAR
        ]
        rows.append(Row(row["name"], "blue", columns))
    return dot_chart(
        "Printed differences of test error, in points, with ±2 noise",
        [data_words(data) for data in CIFAR],
        rows,
        start=CHART_START,
        reference=0.0,
        names=305,
        foot="Blue triangle: larger than 2 × noise. Grey: not distinguishable from the placebo. "
        "Purple: placebo.",
    )


def _dot(item: PrintedContrast | Placebo, colour: str) -> Dot:
    bar = MULTIPLE * noise(item.data).of(item.terms)
    value = item.difference
    return Dot(value, minus(value), value - bar, value + bar, colour=colour)
