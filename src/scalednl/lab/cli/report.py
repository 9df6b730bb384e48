"""`scalednl report`."""

from pathlib import Path
from typing import Annotated

import tyro

from scalednl.errors import UsageError


def report(
    runs: Annotated[list[Path], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS")],
    out: Annotated[Path, tyro.conf.arg(name="out", aliases=("-o",), metavar="FILE")] = Path(
        "report.html"
    ),
    bench: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FOLDER")] = (),
) -> None:
    """Make one page of run directories: tables, curves, claims, cost, attention.

    The page is a single file that opens from disk. The same as Markdown and as JSON is written
    beside it, under the page's name with the endings .md and .json.

    For example `scalednl report runs -o report.html`, or
    `scalednl report runs --bench benchmarks/results -o page.html`.

    Args:
        runs: Run directories, or folders of them.
        out: The page.
        bench: More folders with records of `scalednl bench --out FOLDER`.
    """
    from scalednl.lab.console import counted, notice
    from scalednl.lab.report.content import build_content
    from scalednl.lab.report.write import ANOTHER_FILE, check_page, write_content

    if not runs:
        raise UsageError(
            "name a run directory or a folder of them, for example: scalednl report runs"
        )
    if out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"-o {out} must end in .html: Markdown and JSON are written beside it")
    for folder in bench:
        if not folder.is_dir():
            raise UsageError(f"--bench {folder} is not a folder")
    check_page(out, ANOTHER_FILE)
    content = build_content(runs, bench)
    if not (content.counts.runs or content.costs):
        places = ", ".join(map(str, (*runs, *bench)))
        notice(f"no run and no benchmark record below {places}: the page has the paper's numbers")
    if damaged := content.counts.states.get("damaged", 0):
        notice(f"{counted(damaged, 'run')} cannot be read: the page says why")
    print(write_content(content, out))
