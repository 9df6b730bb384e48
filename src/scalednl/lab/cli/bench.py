"""`scalednl bench`: what the block costs on this machine."""

from typing import Annotated

import tyro

from scalednl.errors import UsageError
from scalednl.lab.bench.options import BenchOptions, parse_bytes
from scalednl.lab.cli.deferred import deferred

Options = Annotated[BenchOptions, tyro.conf.arg(name="")]

bench = tyro.extras.SubcommandApp()


@bench.command
@deferred
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
        batch: Images per step; 64, or 32 with --quick. The authors' release times 128.
    """
    if batch is not None and batch < 2:
        raise UsageError(f"--batch {batch} is too small for batch norm: give 2 or more")
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
def peers(options: Options) -> None:
    """Other implementations beside ours: the same input, the same run, in turns.

    timm, mmcv, torch's fused attention, and packages for linear and efficient attention. Those that
    are not installed get a line that says so; `make peers` installs them.

    For example: `scalednl bench peers --quick`, or `scalednl bench peers --repeats 21`.

    Args:
        options: How to measure.
    """
    from scalednl.lab.bench.peers import run

    run(options)


@bench.command
@deferred
def planner(options: Options) -> None:
    """What the planner picks, what would have been fastest, and what the difference costs.

    Over a grid of shapes, in training and evaluation.

    For example: `scalednl bench planner --quick`, or `scalednl bench planner --threads 1`.

    Args:
        options: How to measure.
    """
    from scalednl.lab.bench.planner import run

    run(options)


@bench.command
@deferred
def train(options: Options) -> None:
    """Images a second of the whole training loop, against a bare loop over one fixed batch.

    What augmentation, learning rate, accounting and looking at the loss cost together.

    For example: `scalednl bench train --quick`, or `scalednl bench train --threads 2`.

    Args:
        options: How to measure.
    """
    from scalednl.lab.bench.training_loop import run

    run(options)


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
