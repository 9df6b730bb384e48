"""`scalednl bench`: what the block costs on this machine."""

from typing import Annotated

import tyro

from scalednl.lab.bench.options import BenchOptions, parse_bytes
from scalednl.lab.cli.deferred import deferred
from scalednl.lab.config.limits import check_at_least

Options = Annotated[BenchOptions, tyro.conf.arg(name="")]

bench = tyro.extras.SubcommandApp()


@bench.command
@deferred
def table3(
    options: Options,
    batch: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
) -> None:
    """The paper's Table 3 here: time and memory that three blocks add to PreResNet-56.

    Without blocks, and with softmax and scaled blocks of 1 to 8 heads, beside the paper's ratios.
    Takes about 6 minutes on 2 cores.

    For example: `scalednl bench table3 --quick`, or
    `scalednl bench table3 --threads 2 --out results`.

    Args:
        options: How to measure.
        batch: Images per step; 64, or 32 with --quick. The authors' release times 128.
    """
    check_at_least(2, batch=batch)
    from scalednl.lab.bench.table3 import run

    run(options, batch)


@bench.command
@deferred
def scaling(
    options: Options,
    budget: Annotated[str, tyro.conf.arg(metavar="SIZE")] = "4GiB",
) -> None:
    """How one block's cost grows from 8x8 to 512x512 pixels and from 32 to 512 channels.

    Softmax, plain and fused, and scaled attention, in the associative and in the planned order;
    with fitted exponents, and the largest map that each can train on within a memory.

    For example: `scalednl bench scaling --quick`, or
    `scalednl bench scaling --budget 8GiB --out results`.

    Args:
        options: How to measure.
        budget: Memory for the largest map, such as 4GiB or 512MiB.
    """
    size = parse_bytes(budget, "--budget")
    from scalednl.lab.bench.scaling import run

    run(options, size)


@bench.command
@deferred
def orders(options: Options) -> None:
    """One block in every order of multiplication, at three settings, against softmax.

    For example: `scalednl bench orders --quick`, or `scalednl bench orders --out results`.

    Args:
        options: How to measure.
    """
    from scalednl.lab.bench.orders import run

    run(options)
