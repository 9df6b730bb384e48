"""`scalednl demo`."""

import sys
from pathlib import Path
from signal import SIGINT
from typing import Annotated

import tyro

from scalednl.lab.machine import check_threads


def demo(
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/demo"),
    threads: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
) -> None:
    """Train, measure and inspect networks on generated images: about a minute on two cores.

    Trains a small network on `pairs` without a block, with a softmax block and with a scaled block,
    measures what the blocks cost, scores their attention, and writes one page; the last line is its
    path. The same command again keeps what is finished and resumes the rest.

    For example: `scalednl demo`, or `scalednl demo --threads 1 --out my-demo`.

    Args:
        out: Folder for the runs and the page.
        threads: Processor threads for torch; its own default if not given.
    """
    check_threads(threads)
    from scalednl.lab.demo.run import run
    from scalednl.lab.streams import lasting_output

    with lasting_output():
        try:
            signal = run(out, threads)
        except KeyboardInterrupt:
            signal = SIGINT
        if signal:
            print("Interrupted; the same command resumes.", file=sys.stderr)
            sys.exit(128 + signal)
