"""The table of scores in docs/attention.md, from finished runs of softmax and scaled attention.

python benchmarks/attention.py runs/cifar10-preresnet20-*-short-seed* --root DATA

Runs without a record of at least 500 images get one first, in their `attention` folder.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from scalednl.errors import CommandError
from scalednl.records.attention import read_attention
from scalednl.records.run import RunFolder
from scalednl.tables import table_text

PAGE = Path(__file__).parents[1] / "docs" / "attention.md"
BEGIN, END = "<!-- made by benchmarks/attention.py -->", "<!-- end -->"
IMAGES = 500
Record = dict[str, Any]


def main() -> None:
    """Look at the runs where that was not done yet, and put the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--root", type=Path)
    options = parser.parse_args()
    try:
        records = [record_of(run, options.root) for run in options.runs]
    except CommandError as error:
        sys.exit(str(error))
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page = f"{before}{BEGIN}\n\n{tables(records)}\n\n{END}{after}"
    PAGE.write_text(page, encoding="utf-8")
    print(tables(records))


def record_of(run: Path, root: Path | None) -> Record:
    """The record of a finished run; made now if it is missing or rests on too few images."""
    result = RunFolder(run).read_result()
    if result is None or result["status"] != "finished":
        raise CommandError(f"{run} is not a finished run")
    folder = RunFolder(run).attention
    record = read_attention(folder)
    if record is None or record["images_scored"] < IMAGES:
        from scalednl.analysis.record import record_run

        record_run(run, images=IMAGES, root=root, quiet=False)
        record = read_attention(folder)
        assert record is not None
    return record


def tables(records: Sequence[Record]) -> str:
    """Means over blocks and seeds, then every block of every run with its interval."""
    groups = grouped(records)
    first = records[0]
    images, seeds = first["images_scored"], {name: len(found) for name, found in groups.items()}
    counted = ", ".join(f"{name} {count}" for name, count in seeds.items())
    head = f"`{first['model']}` on {first['data']}, {images} test images, seeds: {counted}."
    return "\n\n".join(
        [
            f"{head} Mean over blocks, images and seeds (smallest to largest seed):",
            over_seeds(groups),
            "Every block of every run: mean and half the 95 % bootstrap interval over the images:",
            every_block(groups),
        ]
    )


def grouped(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Records by attention, in the order of their seeds."""
    groups: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record["seed"]):
        groups.setdefault(record["blocks"][0]["attention"], []).append(record)
    return {name: groups[name] for name in sorted(groups, reverse=True)}


def over_seeds(groups: dict[str, list[Record]]) -> str:
    """One line a score, one column an attention."""
    rows = []
    for score in _scores(groups):
        cells = [f"`{score}`"]
        for found in groups.values():
            seeds = [mean(block["scores"][score]["mean"] for block in r["blocks"]) for r in found]
            cells.append(_spread(seeds, 3 if abs(seeds[0]) < 10 else 1))
        rows.append(cells)
    for view in ("base", "magnitude", "direction"):
        errors = [[record["error_by_view"][view] for record in found] for found in groups.values()]
        label = "as trained" if view == "base" else f"{view} alone"
        rows.append([f"error, {label}, %", *(_spread(seeds, 1) for seeds in errors)])
    return table_text(["score", *groups], rows)


def every_block(groups: dict[str, list[Record]]) -> str:
    """One line a score and block, one column a run."""
    runs = [record for found in groups.values() for record in found]
    head = [f"{run['blocks'][0]['attention']} {run['seed']}" for run in runs]
    rows = []
    for score in _scores(groups):
        for number in range(len(runs[0]["blocks"])):
            found = [run["blocks"][number]["scores"][score] for run in runs]
            rows.append([f"`{score}`, block {number}", *(_half(summary) for summary in found)])
    return table_text(["score", *head], rows)


def _scores(groups: dict[str, list[Record]]) -> list[str]:
    return list(next(iter(groups.values()))[0]["blocks"][0]["scores"])


def _spread(values: Sequence[float], digits: int) -> str:
    middle = f"{mean(values):.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def _half(summary: dict[str, Any]) -> str:
    digits = 3 if abs(summary["mean"]) < 10 else 1
    half = (summary["high"] - summary["low"]) / 2
    return f"{summary['mean']:.{digits}f} ± {half:.{digits}f}"


if __name__ == "__main__":
    main()
