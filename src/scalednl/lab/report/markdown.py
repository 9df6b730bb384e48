"""report.md: the tables alone, for an issue, a wiki or a terminal."""

from typing import Any

from scalednl.lab.report.formatting import (
    bound,
    data_words,
    difference,
    duration,
    interval,
    needed,
    network_words,
    place,
    plain,
    printed,
)
from scalednl.lab.report.markdown_table import markdown_table
from scalednl.lab.report.printed_markdown import printed_parts


def render_markdown(content: dict[str, Any]) -> str:
    """The content's tables."""
    counts = content["counts"]
    status = ", ".join(f"{count} {name}" for name, count in counts["status"].items())
    parts = [
        "# scalednl report",
        f"{counts['runs']} runs ({status}), {duration(counts['seconds'])} of training. "
        f"Made {content['origin']['date'][:10]} by scalednl {content['origin']['scalednl']}.",
    ]
    if content["others"]["rows"]:
        parts += ["## Trainings", _others(content["others"]["rows"])]
    if content["verdicts"]:
        parts += ["## The paper's claims", _verdicts(content["verdicts"])]
    parts += ["## What the printed numbers can carry", *printed_parts(content["printed"])]
    for table in content["tables"]:
        if table["has_ours"]:
            parts += [f"## {table['title']}{table['mark']}", _caption(table), _artefact(table)]
            parts += [f"{note['mark']} {note['reason']}" for note in table["notes"]]
    problems = [run for run in content["runs"] if run["problem"]]
    if problems:
        rows = [[run["name"], run["problem"]] for run in problems]
        parts += ["## Damaged runs", markdown_table(["run", "problem"], rows)]
    return "\n\n".join(parts) + "\n"


def _others(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        cell = plain({"ours": row["ours"]})
        gap = row["ours"]["difference"]
        lines.append(
            [
                *(data_words(row["data"]), network_words(row["network"]), row["blocks"]),
                *(row["trained"], cell),
                *(difference(gap) if gap else "", duration(row["seconds"])),
            ]
        )
    head = ["data", "network", "blocks", "trained for", "test error, %", "scaled - softmax", "time"]
    return markdown_table(head, lines)


def _verdicts(items: list[dict[str, Any]]) -> str:
    lines = [
        [
            *(item["says"], item["scale"], place(item)),
            "" if item["mean"] is None else bound(item["mean"], item["quantity"]),
            *(interval(item, item["quantity"]), str(item["n"] or ""), item["answer"]),
            ". ".join(part for part in (item["why"], needed(item)) if part),
        ]
        for item in items
    ]
    head = ["claim", "scale", "data, network", "difference", "95 % interval", "n", "verdict", "why"]
    return markdown_table(head, lines)


def _caption(table: dict[str, Any]) -> str:
    return f"{table['caption']} {table['noise']}".strip()


def _artefact(table: dict[str, Any]) -> str:
    head = ["scale", "data", "network", "blocks"]
    for column in table["columns"]:
        head += [f"{column}, paper"] if table["has_printed"] else []
        head += [f"{column}, ours"]
    lines = []
    for group in table["groups"]:
        for row in group["rows"]:
            line = [group["scale"], data_words(row["data"]), network_words(row["network"])]
            line.append(row["row"])
            for column in table["columns"]:
                cell = row["cells"][column]
                known = cell and cell["printed"] is not None
                shown = printed(cell["printed"]) + cell["mark"] if known else ""
                line += [shown] if table["has_printed"] else []
                line.append(plain(cell))
            lines.append(line)
    return markdown_table(head, lines)
