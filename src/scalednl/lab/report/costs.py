"""Cost: the newest record of each benchmark as a chart with its goals."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from scalednl.lab.charts import Dot, Panel, Row, Series, dot_chart, line_chart
from scalednl.lab.report.sanitize import clean_origin, read_json

Found = TypeVar("Found")
SCHEMA = "scalednl.bench."
NAMES = {
    "softmax plain": "red",
    "softmax fused": "purple",
    "associative": "blue",
    "auto": "green",
}


def find_records(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """The newest whole record of each benchmark, lasting ones before quick ones."""
    newest: dict[str, dict[str, Any]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.json")) + sorted(folder.glob("*/*.json")):
            record = _read(path)
            if record is not None:
                name = record["schema"]
                if name not in newest or _rank(record) > _rank(newest[name]):
                    newest[name] = record
    order = [f"{SCHEMA}{kind}." for kind in _TITLES]
    return sorted(
        newest.values(),
        key=lambda record: [not record["schema"].startswith(start) for start in order],
    )


def _read(path: Path) -> dict[str, Any] | None:
    """A record of a benchmark; None for any other file."""
    value = read_json(path)
    if not isinstance(value, dict) or not isinstance(value.get("origin"), dict):
        return None
    schema = value.get("schema")
    if not isinstance(schema, str) or not schema.startswith(SCHEMA):
        return None
    return {**value, "origin": clean_origin(value["origin"])}


def _rank(record: dict[str, Any]) -> tuple[bool, str]:
    return not record.get("quick", False), str(record["origin"].get("date", ""))


def cost(record: dict[str, Any]) -> dict[str, Any]:
    """What the page shows of a record; a record that it cannot draw keeps its goals."""
    kind = record["schema"].removeprefix(SCHEMA).partition(".")[0]
    draw = {"table3": _table3, "scaling": _scaling, "blocks": _blocks}.get(kind)
    chart = None if draw is None else _attempt(draw, record)
    return {
        "kind": kind,
        "title": _TITLES.get(kind, f"scalednl bench {kind}"),
        "chart": chart or "",
        "goals": _goals(record),
        "origin": record["origin"],
        "quick": bool(record.get("quick", False)),
    }


_TITLES = {
    "table3": "Table 3. What three blocks cost a PreResNet-56",
    "scaling": "Cost over the size of the map",
    "blocks": "One block, forward and backward",
    "orders": "Orders of multiplication",
    "peers": "Other implementations",
    "planner": "How well the planner picks",
    "train": "The training loop against a bare one",
}


def _goals(record: dict[str, Any]) -> list[dict[str, Any]]:
    goals = record.get("goals")
    if not isinstance(goals, list):
        return []
    return [
        {name: goal.get(name) for name in ("what", "value", "at_most", "at_least", "met")}
        for goal in goals
        if isinstance(goal, dict) and isinstance(goal.get("value"), int | float)
    ]


def _table3(record: dict[str, Any]) -> str:
    rows = []
    for line in record["rows"]:
        method, heads = line["method"], line["heads"]
        colour = NAMES.get(method.partition(",")[0], "grey")
        name = f"{method}, {heads} head{'s' * (heads > 1)}" if heads else method
        plain = record["rows"][0]["train_step"]["median_ms"]
        low, high = (value / plain for value in line["train_step"]["quartiles_ms"])
        columns = [
            _dots(line["train_step_ratio"], line["paper_train_step_ratio"], low, high),
            _dots(line["bytes_kept_ratio"], None),
            _dots(line["peak_memory_ratio"], line["paper_memory_ratio"]),
        ]
        rows.append(Row(name, colour, columns))
    return dot_chart(
        "Multiples of the network without blocks",
        ["time of a training step", "bytes kept for backward", "peak memory"],
        rows,
        start=1,
        foot="Filled: measured, with quartiles. Hollow: the paper, where it prints one.",
    )


def _dots(
    value: float, paper: float | None, low: float | None = None, high: float | None = None
) -> list[Dot]:
    dots = [Dot(value, f"x{value:.2f}", low, high)]
    return dots if paper is None else [*dots, Dot(paper, f"paper x{paper:.2f}", hollow=True)]


def _scaling(record: dict[str, Any]) -> str:
    rows = record["by_side"]
    sides = sorted({row["height"] for row in rows})
    panels = []
    for mode in dict.fromkeys(row["mode"] for row in rows):
        series = []
        for method, colour in NAMES.items():
            mine = [row for row in rows if row["mode"] == mode and row["method"] == method]
            timed = [row for row in mine if "time" in row]
            points = [(row["height"] * row["width"], row["time"]["median_ms"]) for row in timed]
            power = next(
                e["pixels_to_the_power"]
                for e in record["exponents"]
                if e["method"] == method and e["mode"] == mode
            )
            if points:
                series.append(Series(method, colour, sorted(points), f"pixels ^ {power:.2f}"))
        panels.append(Panel(mode, series))
    return line_chart(
        "Time of one block by the size of its map",
        panels,
        x_label="pixels",
        y_label="milliseconds",
        x_ticks=[(side * side, f"{side}²") for side in sides],
        foot="Exponents are fitted to the three largest sizes.",
    )


def _blocks(record: dict[str, Any]) -> str:
    rows = [
        Row(
            row["method"],
            NAMES.get(row["method"].removeprefix("scaled "), "grey"),
            [
                [Dot(row["milliseconds"], f"{_three(row['milliseconds'])} ms")],
                [Dot(row["bytes_kept"] / 1e6, f"{_three(row['bytes_kept'] / 1e6)} MB")],
            ],
        )
        for row in record["rows"]
    ]
    return dot_chart(
        record["settings"]["words"],
        ["time, milliseconds", "kept for backward, megabytes"],
        rows,
        log=True,
        foot="Both axes are logarithmic. All scaled rows compute the same, checked before timing.",
    )


def _three(value: float) -> str:
    """Three digits, and never a power of ten."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _attempt(function: Callable[[dict[str, Any]], Found], record: dict[str, Any]) -> Found | None:
    """What a function makes of a record; None of one that has not what it needs.

    Records are files from anywhere, so whatever is wrong in one ends here.
    """
    try:
        return function(record)
    except Exception:
        return None
