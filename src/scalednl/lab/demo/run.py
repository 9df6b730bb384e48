"""`scalednl demo` from start to end."""

import time
from pathlib import Path

from rich.console import Console

from scalednl.files import writing_to
from scalednl.lab.allocator import keep_memory
from scalednl.lab.attention.record import record_run
from scalednl.lab.console import duration
from scalednl.lab.demo.cost import measure_cost
from scalednl.lab.demo.training import train_all
from scalednl.lab.machine import use_threads
from scalednl.lab.report.write import check_page, write_report

IMAGES = 200
"""Test images on which attention is scored"""


def run(out: Path, threads: int | None = None) -> int | None:
    """Train, measure, score attention, and write the page; returns the signal that interrupted it.

    What is finished in the folder stays, so the demonstration can be resumed.
    """
    start, page = time.perf_counter(), out / "report.html"
    check_page(page, "choose another folder with --out")
    use_threads(threads)
    keep_memory()
    console = Console(highlight=False)
    console.print(
        "[bold]Can a network compare two distant places?[/] Each image of `pairs` has two gratings "
        "at opposite edges; the class is the difference of their angles.\n"
    )
    trained = train_all(out, threads, console)
    if trained.signal:
        return trained.signal
    console.print(
        "\n[bold]What does a block cost?[/] Forward and backward; all scaled rows compute the same."
    )
    with writing_to(out):
        measure_cost(out, console)
    for path in trained.with_blocks:
        record_run(path, images=IMAGES, quiet=True)
    write_report([out], page)
    console.print(
        "\n[bold]Where does it look?[/] The page shows it, pixel by pixel. All took "
        f"{duration(time.perf_counter() - start)}; open"
    )
    # Alone on its line, and in one piece however narrow the terminal is.
    print(page.resolve(), flush=True)
    return None
