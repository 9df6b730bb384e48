"""Where a run computes: Fabric set up from our settings, or from the launcher that started us."""

import logging
import os
import sys

import torch
from lightning_fabric import Fabric

from scalednl.errors import CommandError
from scalednl.lab.config import RunSettings

PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}


def make_fabric(settings: RunSettings) -> Fabric:
    """Fabric for these settings; `torchrun` and `fabric run` count the processes themselves."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    if _started_by_fabric_run():
        return Fabric()
    devices, nodes = settings.devices, settings.nodes
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    accelerator = _accelerator(settings)
    if settings.precision == "fp16" and accelerator == "cpu":
        raise CommandError("fp16 training needs a GPU: take --precision bf16 on a CPU")
    return Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=nodes,
        precision=PRECISIONS[settings.precision],  # type: ignore[arg-type]
        strategy="ddp" if devices * nodes > 1 else "auto",
    )


def launch(fabric: Fabric) -> None:
    """Start the other processes, where `fabric run` has not done so."""
    if not _started_by_fabric_run():
        fabric.launch()


def is_first_process() -> bool:
    """Whether this process is rank 0, told before any of them have met."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "NODE_RANK"))


def peak_memory_mb(device: torch.device) -> float:
    """The most memory so far: of the GPU where there is one, else of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    # Not on Windows, where this is not known.
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def _started_by_fabric_run() -> bool:
    return os.environ.get("LT_CLI_USED") == "1"


def _accelerator(settings: RunSettings) -> str:
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.mps.is_available()}
    if settings.device == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if there[name])
    if not there[settings.device]:
        found = ", ".join(name for name, here in there.items() if here)
        raise CommandError(f"--device {settings.device} is not there: this machine has {found}")
    if settings.device == "cuda" and settings.devices > torch.cuda.device_count():
        raise CommandError(
            f"--devices {settings.devices} is more than the {torch.cuda.device_count()} GPUs here"
        )
    return settings.device
