"""Where a run computes: Fabric, from the run's settings or from the launcher that started it."""

import atexit
import logging
import os

import torch
from lightning_fabric import Fabric

from scalednl.errors import CommandError, UsageError
from scalednl.lab.config import RunSettings
from scalednl.lab.config.experiment import PRECISIONS, Precision
from scalednl.lab.config.limits import check_at_most


def make_fabric(settings: RunSettings, precision: Precision = "fp32") -> Fabric:
    """Fabric for these settings; `torchrun` and `fabric run` set the processes themselves."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    if _started_by_fabric_run():
        fabric = Fabric()
        found = fabric.strategy.precision.precision
        if found != PRECISIONS[precision]:
            raise UsageError(
                f"`fabric run` was given precision {found}, but the experiment has {precision}: "
                "give the same --precision to `scalednl train`"
            )
        return fabric
    devices, nodes = settings.devices, 1
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    accelerator = _accelerator(settings)
    if precision == "fp16" and accelerator == "cpu":
        raise CommandError("fp16 training needs a GPU: use --precision bf16 on a CPU")
    return Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=nodes,
        precision=PRECISIONS[precision],  # type: ignore[arg-type]
        strategy="ddp" if devices * nodes > 1 else "auto",
    )


def launch(fabric: Fabric) -> None:
    """Start the other processes, where `fabric run` has not done so."""
    if not _started_by_fabric_run():
        fabric.launch()
    if fabric.world_size > 1:
        # Fabric does this for GPUs alone. gloo's threads may abort a process that ends with them.
        atexit.register(_disconnect)


def _disconnect() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def is_first_process() -> bool:
    """Whether this process is rank 0, known before the processes are connected."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "NODE_RANK"))


def _started_by_fabric_run() -> bool:
    return os.environ.get("LT_CLI_USED") == "1"


def _accelerator(settings: RunSettings) -> str:
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.mps.is_available()}
    if settings.device == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if there[name])
    if not there[settings.device]:
        found = ", ".join(name for name, here in there.items() if here)
        raise CommandError(f"--device {settings.device} is not available: this machine has {found}")
    if settings.device == "cuda":
        check_at_most(torch.cuda.device_count(), "GPUs of this machine", devices=settings.devices)
    return settings.device
