"""`scalednl bench`: what the block costs on this machine."""

from typing import Annotated

import tyro

from scalednl.bench.options import BenchOptions, parse_bytes
from scalednl.errors import UsageError

Options = Annotated[BenchOptions, tyro.conf.arg(name="")]

bench = tyro.extras.SubcommandApp()


@bench.command
def table3(
    options: Options,
    batch: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
) -> None:
    """The paper's Table 3 here: time and memory that three blocks add to PreResNet-56.

    Without blocks, and with softmax and scaled blocks of 1 to 8 heads; the paper's ratios stand
    beside. Takes about 6 minutes on 2 cores.

    For example: `scalednl bench table3 --quick`, or
    `scalednl bench table3 --threads 2 --out results`.

    Args:
        options: How to measure.
        batch: Images a step; 64, or 32 with --quick. The paper has 128.
    """
    if batch is not None and batch < 2:
        raise UsageError(f"--batch {batch} is too small for batch norm: give 2 or more")
    from scalednl.bench.table3 import run

    run(options, batch)
