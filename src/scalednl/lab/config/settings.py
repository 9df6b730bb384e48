"""How an experiment is run: what the machine is asked for, not what is asked of the experiment."""

import os
from dataclasses import asdict, dataclass
from typing import Any, Literal

from scalednl.errors import UsageError

Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["fp32", "bf16", "fp16"]


@dataclass(frozen=True)
class RunSettings:
    """Device, precision and care."""

    device: Device = "auto"
    """"auto" takes a GPU if there is one"""
    devices: int = 1
    """Processes on each machine; more than one is data-parallel"""
    nodes: int = 1
    """Machines"""
    precision: Precision = "fp32"
    """bf16 and fp16 are mixed precision"""
    threads: int | None = None
    """Processor threads for torch; its own default if None"""
    compile: bool = False
    """Run the network through torch.compile"""
    checkpoint_minutes: float = 5.0
    """The most work that can be lost"""
    tensorboard: bool = True
    """Write TensorBoard events"""

    def __post_init__(self) -> None:
        for name in ("devices", "nodes"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name} {getattr(self, name)} makes no sense: give 1 or more")
        most = 4 * (os.cpu_count() or 1)
        if self.threads is not None and not 1 <= self.threads <= most:
            raise UsageError(f"--threads {self.threads} makes no sense here: give 1 to {most}")
        if not 0 < self.checkpoint_minutes < 1e6:
            raise UsageError(
                f"--checkpoint-minutes {self.checkpoint_minutes} makes no sense: give minutes"
            )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)
