"""The command line: `scalednl COMMAND`."""

import sys
from typing import Annotated

import tyro

from scalednl import __version__

app = tyro.extras.SubcommandApp()


class UsageError(Exception):
    """A mistake in a command's arguments, in one sentence for the person who made it."""


@app.command
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


def main() -> None:
    """Run the command line; mistakes of the user end with one sentence and exit code 2."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"scalednl {__version__}")
        return
    try:
        app.cli(prog="scalednl", description="Exact softmax-free non-local blocks for PyTorch.")
    except UsageError as mistake:
        print(f"scalednl: {mistake}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
