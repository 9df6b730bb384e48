"""`scalednl export`."""

from pathlib import Path
from typing import Annotated

import tyro

from scalednl.errors import CommandError, UsageError
from scalednl.files import writing_to


def export(
    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN_OR_WEIGHTS")],
    to: tyro.conf.Positional[Path],
    size: Annotated[int, tyro.conf.arg(metavar="PIXELS")] = 32,
    opset: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
) -> None:
    """Export a trained network as ONNX or as a torch.export program, and check it.

    Batch, height and width stay open; batch norm is folded. The file is compared with the network
    at five sizes and kept only if all agree. For example
    `scalednl export runs/pairs-scaled-seed0 net.onnx`, or
    `scalednl export net.safetensors net.pt2 --size 64`.

    Args:
        source: A run directory, a file of scalednl.save_model, or a name of
            scalednl.list_weights.
        to: The file to write: .onnx, or .pt2 for torch.export.
        size: Height and width at which the order of multiplication is fixed.
        opset: Version of ONNX's operators, for readers that do not know the newest; torch's
            choice if not given.
    """
    if size < 8:
        raise UsageError(f"--size must be at least 8, got {size}")
    if to.suffix not in (".onnx", ".pt2"):
        raise UsageError(f"{to} must end in .onnx or .pt2")
    import torch

    from scalednl.lab.training.trained import source_model
    from scalednl.models.export import export_model

    try:
        model, example = source_model(source), torch.randn(1, 3, size, size)
        with writing_to(to, "choose another file"):
            report = export_model(model, to, example, opset=opset)
        print(report)
    except (ValueError, RuntimeError, OSError) as error:
        raise CommandError(str(error)) from error
    except AssertionError as error:
        # Of a network from elsewhere that torch.export could follow at some sizes only.
        raise CommandError(
            f"{source} cannot be exported for images of every size ({error}): another --size, at "
            "which its smallest maps have several pixels, may work"
        ) from error
