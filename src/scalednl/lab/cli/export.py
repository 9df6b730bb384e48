"""`scalednl export`."""

from pathlib import Path
from typing import Annotated

import tyro

from scalednl.errors import CommandError, UsageError


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

    from scalednl.models.export import export_model
    from scalednl.models.weights import load_model

    try:
        model = load_model(weights)
        print(export_model(model, to, torch.randn(2, 3, size, size)))
    except (ValueError, RuntimeError, OSError) as error:
        raise CommandError(str(error)) from error
