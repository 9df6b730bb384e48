"""What `scalednl attention` left in run directories, as far as a report reads it."""

from collections.abc import Sequence
from typing import Any

from scalednl.errors import CommandError
from scalednl.records.attention import read_attention
from scalednl.report.clean import clean, clean_origin
from scalednl.report.runs import Run


def find_attention(runs: Sequence[Run]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
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


def key_shares(records: Sequence[dict[str, Any]]) -> dict[str, float]:
    """By run: the share of variance that keys explain, in the first block, as in Figure 1."""
    found = {}
    for record in records:
        score = record["blocks"][0]["scores"].get("key_share")
        if score is not None and score["mean"] is not None:
            found[record["run"]] = float(score["mean"])
    return found


def without_pictures(record: dict[str, Any]) -> dict[str, Any]:
    """A record's numbers."""
    names = ("run", "data", "model", "seed", "images_scored", "blocks", "error_by_view", "origin")
    return {**{name: record[name] for name in names}, "problem": ""}
