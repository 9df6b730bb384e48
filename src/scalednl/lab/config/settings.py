"""How an experiment is run: what it asks of the machine. None of it changes the experiment."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from scalednl.errors import UsageError
from scalednl.lab.config.limits import check_at_least
from scalednl.lab.machine import check_threads

Device = Literal["auto", "cpu", "cuda", "mps"]


@dataclass(frozen=True)
class RunSettings:
    """Device, processes, and what is saved on the way."""

    device: Device = "auto"
    """"auto" uses a GPU if there is one"""
    devices: int = 1
    """Processes on this machine; with more than one, training is data-parallel"""
    threads: int | None = None
    """Processor threads for torch; its own default if None"""
    compile: bool = False
    """Run the network through torch.compile"""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints within an epoch"""
    tensorboard: bool = True
    """Write TensorBoard events"""
    keep_memory: bool = True
    """Keep freed memory for the next step instead of returning it to the system, where the C
    library is glibc: faster, with the same result"""

    def __post_init__(self) -> None:
        check_at_least(1, devices=self.devices)
        check_threads(self.threads)
        if not 0 < self.checkpoint_minutes < 1e6:
            raise UsageError(
                "--checkpoint-minutes must be more than 0 and less than 1000000, got "
                f"{self.checkpoint_minutes}"
            )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "RunSettings":
        """Undo `as_dict`; files of older versions have options that are gone."""
        known = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})
