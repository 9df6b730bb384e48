"""What `scalednl attention` left in run directories, as far as a report reads it."""

from collections.abc import Sequence
from typing import Any

from scalednl.errors import CommandError
from scalednl.lab.records.attention import read_attention
from scalednl.lab.records.runs import RunRecord
from scalednl.lab.report.formatting import SCORES
from scalednl.lab.report.sanitize import clean, clean_origin

COLUMNS = 4
"""Runs beside each other in a table of scores, so that it fits a window of 1440 pixels"""


def find_attention(runs: Sequence[RunRecord]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The records of the runs that have one, and a line for each that cannot be read."""
    found, damaged = [], []
    for run in runs:
        folder = run.path / "attention"
        try:
            record = read_attention(folder)
            record = None if record is None else clean(record)
        except (CommandError, ValueError) as error:
            problem = str(error).replace(f"{run.path}/", "")
            damaged.append({"run": run.name, "problem": problem})
            continue
        if record is not None:
            origin = clean_origin(record["origin"])
            found.append({**record, "origin": origin, "run": run.name, "folder": folder})
    return found, damaged


def scores_of(records: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Run -> score -> mean over images in the first block, the one that Figure 1 shows."""
    return {
        record["run"]: {
            name: float(summary["mean"])
            for name, summary in record["blocks"][0]["scores"].items()
            if summary["mean"] is not None
        }
        for record in records
    }


def without_pictures(record: dict[str, Any]) -> dict[str, Any]:
    """A record's numbers."""
    names = (
        *("run", "data", "model", "seed", "images_scored", "blocks", "untrained", "ablations"),
        "origin",
    )
    return {**{name: record[name] for name in names}, "problem": ""}


def score_tables(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tables of at most COLUMNS runs of one data set and network, softmax beside the others."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for item in items:
        if not item["problem"]:
            groups.setdefault((str(item["data"] or "photos"), item["model"]), []).append(item)
    tables = []
    for (data, model), found in groups.items():
        found.sort(key=_column_order)
        for first in range(0, len(found), COLUMNS):
            runs = found[first : first + COLUMNS]
            tables.append({"data": data, "model": model, "runs": runs, "parts": _parts(runs)})
    return tables


def _column_order(item: dict[str, Any]) -> tuple[int, bool, str]:
    seed = item["seed"]
    return (-1 if seed is None else seed, item["blocks"][0]["attention"] != "softmax", item["run"])


def _parts(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One part per block, with a row per score and a cell per run."""
    parts = []
    for number in range(max(len(run["blocks"]) for run in runs)):
        blocks = [run["blocks"][number] if number < len(run["blocks"]) else None for run in runs]
        names = dict.fromkeys(name for block in blocks if block for name in block["scores"])
        ordered = sorted(names, key=lambda name: list(SCORES).index(name) if name in SCORES else 99)
        rows = [
            {
                "name": name,
                "cells": [
                    {"trained": block["scores"][name], "untrained": block["untrained"][name]}
                    if block and name in block["scores"]
                    else None
                    for block in blocks
                ],
            }
            for name in ordered
        ]
        parts.append({"number": number + 1, "rows": rows})
    return parts


def ablation_names(table: dict[str, Any]) -> list[str]:
    """The ablations that any run of a table was tested with."""
    found = [run["ablations"]["error_pct"] for run in table["runs"] if run["ablations"]]
    return list(dict.fromkeys(name for errors in found for name in errors))
