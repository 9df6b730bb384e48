"""How near a step comes to what the machine can do at all. Imports no torch.

The floor of a step is the larger of two times: its counted multiply-adds at the rate of a large
float32 matrix product of this machine, and the bytes that must move at the bandwidth of a copy.
Both rates are measured in the same run, with the same threads. A step's share of the floor is the
floor over its time: 1 is the limit.

The floor belongs to a method: multiply-adds are those that the method itself does. A method that
multiplies more has a higher floor, so a share says how well a method is computed, and only times
compare methods.

Bytes that must move, for one block: forward reads x and writes z; backward reads x and dz and
writes dx: 2 maps in forward, 5 in forward and backward, for every method alike. Weights, and maps
that a method writes and reads in between, are not counted: another program could leave these in a
cache. For a training step of a network: what it keeps for backward, written once and read once.
"""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from scalednl.lab.records.timing import Positive, Timing

Amount = Annotated[int, msgspec.Meta(ge=0, le=10**18)]


@dataclass(frozen=True)
class Work:
    """What a step must do at least."""

    multiply_adds: Amount
    bytes_moved: Amount

    @classmethod
    def of_block(cls, multiply_adds: int, map_bytes: int, *, training: bool) -> "Work":
        """The work of one block: 2 maps are read or written in forward, 5 with backward."""
        return cls(multiply_adds, (5 if training else 2) * map_bytes)


@dataclass(frozen=True)
class Floor:
    """The least time of a step on this machine, and its share of the time that was measured."""

    work: Work
    milliseconds: Positive
    share: Positive

    def __str__(self) -> str:
        return f"{self.share:.2f}"


@dataclass(frozen=True)
class MachineLimit:
    """The best rates of several runs, on the device and with the threads of the record."""

    multiply_adds_per_second: Positive
    """The rate of a large float32 matrix product; one multiply-add is two FLOP"""
    bytes_per_second: Positive
    """The rate of a copy that fits into no cache, read and written bytes together"""

    def milliseconds(self, work: Work) -> float:
        """The least time in which this machine can do the work."""
        multiplying = work.multiply_adds / self.multiply_adds_per_second
        return 1e3 * max(multiplying, work.bytes_moved / self.bytes_per_second)

    def floor(self, work: Work, time: Timing) -> Floor:
        """The floor of a step that took this time, in the median."""
        least = self.milliseconds(work)
        share = least / time.median_ms
        return Floor(work, *(float(f"{value:.4g}") for value in (least, share)))

    def __str__(self) -> str:
        return (
            f"float32 products {2e-9 * self.multiply_adds_per_second:,.0f} GFLOP/s, "
            f"copies {1e-9 * self.bytes_per_second:.1f} GB/s"
        )
