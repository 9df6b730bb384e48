"""`scalednl eval`."""

from pathlib import Path
from typing import Annotated

import tyro


def evaluate(
    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN_OR_WEIGHTS")],
    data: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    limit: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    reference_pixels: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    classes: bool = False,
    json: bool = False,
    threads: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    root: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
) -> None:
    """Test a trained network.

    For example `scalednl eval runs/pairs-scaled-seed0 --classes`, or
    `scalednl eval net.safetensors --data cifar10`. At another image size than that of training:
    `scalednl eval runs/cifar10-preresnet20-scaled-short-seed0 --size 48 --reference-pixels 256`.

    Args:
        source: A run directory, a file of scalednl.save_model, or a name of
            scalednl.list_weights.
        data: The data set, if it is not the run's own.
        limit: Number of test images, with the classes in their proportions; all if not given.
        size: Resize the test images to this shorter side first.
        reference_pixels: Use this option of scaled blocks, which were trained without it: the
            number of pixels that they had in training (16 x 16 in stage 2 at 32 px).
        classes: Show the error of every class.
        json: Print JSON instead of text.
        threads: Processor threads for torch; its own default if not given.
        root: Folder of the data sets; $SCALEDNL_DATA or the platform's cache folder if not given.
    """
    import json as encoder
    from dataclasses import asdict

    from scalednl.lab.allocator import keep_memory
    from scalednl.lab.console import counted
    from scalednl.lab.machine import use_threads
    from scalednl.lab.training.evaluate import evaluate_source

    use_threads(threads)
    keep_memory()
    found = evaluate_source(source, data, limit, root, size=size, reference_pixels=reference_pixels)
    if json:
        print(encoder.dumps(asdict(found), indent=2))
        return
    resized = "" if size is None else f" at {size} px"
    print(
        f"{source}: test error {found.test_error_pct:.2f} %, loss {_loss(found.test_loss)}, "
        f"on {counted(found.images, 'image')} of {found.data}{resized}"
    )
    if classes:
        for name, error in found.class_error_pct.items():
            print(f"  {name:30} {'-' if error is None else f'{error:.2f} %'}")


def _loss(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4f}"
