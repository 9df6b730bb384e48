"""The command line: `scalednl COMMAND`."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

from scalednl import __version__

app = tyro.extras.SubcommandApp()


class UsageError(Exception):
    """A mistake in a command's arguments, in one sentence for the person who made it."""


class CommandError(Exception):
    """What a command could not do, in one sentence."""


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


@app.command
def export(
    weights: tyro.conf.Positional[Path],
    to: tyro.conf.Positional[Path],
    size: Annotated[int, tyro.conf.arg(metavar="PIXELS")] = 32,
) -> None:
    """Write a saved network as ONNX or as a torch.export program, checked.

    Batch, height and width stay open; batch norm is folded. The file is compared with the network
    at five sizes and kept only if all agree. For example, from Python
    `scalednl.save_model(model, "net.safetensors")`, and then
    `scalednl export net.safetensors net.onnx --size 32`.

    Args:
        weights: A file of `scalednl.save_model`.
        to: The file to write: .onnx, or .pt2 for torch.export.
        size: Height and width at which the order of multiplication is fixed.
    """
    if size < 8:
        raise UsageError(f"--size {size} is too small: give 8 or more")
    if to.suffix not in (".onnx", ".pt2"):
        raise UsageError(f"{to} does not say a format: end it in .onnx or .pt2")
    import torch

    from scalednl.export import export_model
    from scalednl.models.weights import load_model

    try:
        model = load_model(weights)
        print(export_model(model, to, torch.randn(2, 3, size, size)))
    except (ValueError, RuntimeError, OSError) as error:
        raise CommandError(str(error)) from error


def main() -> None:
    """Run the command line; a mistake ends with a sentence and exit code 2, a failure with 1."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"scalednl {__version__}")
        return
    try:
        app.cli(prog="scalednl", description="Exact softmax-free non-local blocks for PyTorch.")
    except (UsageError, CommandError) as problem:
        print(f"scalednl: {problem}", file=sys.stderr)
        sys.exit(2 if isinstance(problem, UsageError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
