"""report.md: the tables alone, for an issue, a wiki or a terminal."""

from typing import Any

from scalednl.report.words import (
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
    for table in content["tables"]:
        if table["has_ours"]:
            parts += [f"## {table['title']}", table["caption"], _artefact(table)]
    problems = [run for run in content["runs"] if run["problem"]]
    if problems:
        rows = [[run["name"], run["problem"]] for run in problems]
        parts += ["## Damaged runs", _table(["run", "problem"], rows)]
    return "\n\n".join(parts) + "\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_escape(cell) for cell in line)} |" for line in lines)


def _escape(text: str) -> str:
    """Text that stays text: no column of its own, no tag."""
    text = " ".join(text.split())
    for letter, written in (("\\", "\\\\"), ("&", "&amp;"), ("<", "&lt;"), ("|", "\\|")):
        text = text.replace(letter, written)
    # A link needs its "](" and code its quotes.
    return text.replace("](", "]\\(").replace("`", "\\`")


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
    return _table(head, lines)


def _verdicts(items: list[dict[str, Any]]) -> str:
    lines = [
        [
            *(item["says"], item["scale"], place(item)),
            "" if item["mean"] is None else bound(item["mean"], item["quantity"]),
            *(interval(item, item["quantity"]), str(item["n"] or ""), item["answer"]),
            " ".join(part for part in (item["why"], needed(item)) if part),
        ]
        for item in items
    ]
    head = ["claim", "scale", "data, network", "difference", "95 % interval", "n", "verdict", "why"]
    return _table(head, lines)


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
                line += [printed(cell["printed"]) if known else ""] if table["has_printed"] else []
                line.append(plain(cell))
            lines.append(line)
    return _table(head, lines)
