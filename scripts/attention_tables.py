"""The results table in docs/attention.md, from finished runs of softmax and scaled attention.

python -m scripts.attention_tables runs/pairs-softmax-seed* runs/pairs-scaled-seed* --root DATA

Runs without a record of at least 500 images are scored first, into their `attention` folder. All
runs must have the same data set and network. Every call replaces the table of that data set and
network and leaves the others.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from scalednl.errors import CommandError
from scalednl.lab.console import table_text
from scalednl.lab.records.attention import AttentionRecord, is_current, read_attention
from scalednl.lab.records.run import RunFolder
from scalednl.lab.report.formatting import spread
from scalednl.lab.stats import summarise

PAGE = Path(__file__).parents[1] / "docs" / "attention.md"
END = "<!-- end of the results -->"
IMAGES = 500
Record = AttentionRecord


def main() -> None:
    """Score the runs that have no record yet, and write their table into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--root", type=Path)
    options = parser.parse_args()
    try:
        records = [record_of(run, options.root) for run in options.runs]
        section = results(records)
    except CommandError as error:
        sys.exit(str(error))
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), records[0], section), "utf-8")
    print(section)


def record_of(run: Path, root: Path | None) -> Record:
    """The record of a finished run; made now if there is no current one on enough images."""
    result = RunFolder(run).read_result()
    if result is None or result.status != "finished":
        raise CommandError(f"{run} is not a finished run")
    if not is_current(run, IMAGES):
        from scalednl.lab.attention.record import record_run

        record_run(run, images=IMAGES, root=root, quiet=False)
    record = read_attention(RunFolder(run).attention)
    assert record is not None
    return record


def replaced(page: str, record: Record, section: str) -> str:
    """The page with a section in place of the one with the same heading, or before the end."""
    heading = re.escape(_heading(record))
    pattern = re.compile(rf"{heading}\n.*?(?=^### |^{re.escape(END)})", re.M | re.S)
    if pattern.search(page):
        return pattern.sub(lambda _: f"{section}\n\n", page)
    if END not in page:
        raise CommandError(f"{PAGE.name} has no line {END}")
    return page.replace(END, f"{section}\n\n{END}")


def results(records: Sequence[Record]) -> str:
    """Heading, what was measured, and one table: scores of each block, then ablation errors."""
    if len({(record.data, record.model) for record in records}) != 1:
        raise CommandError("the runs have more than one data set or network: give those of one")
    groups = grouped(records)
    first = records[0]
    tested = {record.ablations.images for record in records if record.ablations}
    seeds = ", ".join(f"{name} {len(found)}" for name, found in groups.items())
    words = (
        f"Seeds: {seeds}. {first.images_scored} test images scored, "
        f"{' or '.join(f'{count:,}' for count in sorted(tested))} tested. Mean over seeds ± sample "
        "standard deviation over seeds; in brackets the mean of the untrained networks."
    )
    return "\n\n".join([_heading(first), words, table(groups)])


def grouped(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Records by attention, softmax first, in the order of their seeds."""
    groups: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.seed or 0):
        groups.setdefault(record.blocks[0].attention, []).append(record)
    return {name: groups[name] for name in sorted(groups, reverse=True)}


def table(groups: dict[str, list[Record]]) -> str:
    """One column per attention."""
    blocks = range(len(next(iter(groups.values()))[0].blocks))
    rows = [
        [f"`{name}`, block {number + 1}" if len(blocks) > 1 else f"`{name}`", *cells]
        for scores in zip(*(score_rows(groups, number) for number in blocks), strict=True)
        for number, (name, *cells) in enumerate(scores)
    ]
    rows += [[f"error, `{name}`, %", *cells] for name, *cells in ablation_rows(groups)]
    return table_text(["", *groups], rows)


def score_rows(groups: dict[str, list[Record]], number: int) -> list[list[str]]:
    """A row for every score of one block: its name, then a cell per attention."""
    runs = [record for found in groups.values() for record in found]
    return [
        [score, *(_score(found, number, score) for found in groups.values())]
        for score in _names(runs, lambda run: run.blocks[number].scores)
    ]


def ablation_rows(groups: dict[str, list[Record]]) -> list[list[str]]:
    """A row for everything that maps were replaced with: the test error of every attention."""
    runs = [record for found in groups.values() for record in found]
    return [
        [
            name,
            *(
                _known_spread([_errors(run).get(name) for run in found])
                for found in groups.values()
            ),
        ]
        for name in _names(runs, _errors)
    ]


def _errors(record: Record) -> dict[str, float]:
    return record.ablations.error_pct if record.ablations else {}


def _heading(record: Record) -> str:
    return f"### {record.data}, {record.model}"


def _names(runs: Sequence[Record], values: Callable[[Record], Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in values(run)))


def _score(found: Sequence[Record], number: int, score: str) -> str:
    blocks = [record.blocks[number] for record in found]
    if any(score not in block.scores for block in blocks):
        return ""
    trained = [block.scores[score].mean for block in blocks]
    before = [block.untrained[score].mean for block in blocks]
    digits = 3 if max(map(abs, trained + before)) < 10 else 1
    return f"{_known_spread(trained, digits)} ({summarise(before).mean:.{digits}f})"


def _known_spread(values: Sequence[float | None], digits: int = 2) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    return spread(summarise(known), digits)


if __name__ == "__main__":
    main()
