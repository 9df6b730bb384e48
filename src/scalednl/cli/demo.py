"""`scalednl demo`."""

from typing import Annotated

import tyro

from scalednl.errors import UsageError


def demo(threads: Annotated[int | None, tyro.conf.arg(metavar="N")] = None) -> None:
    """Show the block at work on random features, in about 20 seconds.

    Prints how it plans, checks every order of multiplication against the paper's equations, times
    them against softmax attention, and attends over an image in tiles.

    For example: `scalednl demo`, or `scalednl demo --threads 1` to see one core.

    Args:
        threads: Processor threads for torch; its own default if not given.
    """
    if threads is not None and threads < 1:
        raise UsageError(f"--threads {threads} makes no sense: give 1 or more")
    from scalednl.demo import run

    run(threads)
