"""The largest map that fits into a given memory, found by measuring fresh processes."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from scalednl.lab.bench.options import short_bytes
from scalednl.lab.bench.peak import Peak, peak_of
from scalednl.lab.bench.shapes import METHODS, block_step

FIRST, STEP = 64, 8
"""The first side measured; sides found are multiples of the other"""


@dataclass(frozen=True)
class Largest:
    """The largest square map of one method, and how that is known."""

    method: str
    side: int
    peak_bytes: int
    step_seconds: float
    measured: bool
    """Whether a step of that size was run; else both numbers are extrapolated"""

    @staticmethod
    def head() -> list[str]:
        """The titles of `row`."""
        return ["method", "largest map", "pixels", "peak", "one step", ""]

    def row(self) -> list[str]:
        """A line of a table."""
        return [
            self.method,
            f"{self.side}x{self.side}",
            f"{self.side**2:,}",
            short_bytes(self.peak_bytes),
            _duration(self.step_seconds),
            "measured" if self.measured else "extrapolated: a step takes too long to try",
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)


def largest_maps(budget: int, patience: float, channels: int, device: str) -> list[Largest]:
    """The largest map of every method that can be trained on, input and gradient included."""
    return [_largest(method, budget, patience, channels, device) for method in METHODS]


def _largest(method: str, budget: int, patience: float, channels: int, device: str) -> Largest:
    """Double the side while that is cheap, extrapolate by a power law, then try what was found."""
    power = 2.0 if "softmax" in method else 1.0
    tried: dict[int, Peak] = {}
    side = FIRST
    while True:
        tried[side] = _peak(method, channels, side, device)
        quick = tried[side].seconds * 4**power <= patience / 2
        if not quick or tried[side].bytes * 4**power > budget:
            break
        side *= 2
    for _ in range(4):
        side = _within(tried, budget)
        if side in tried:
            break
        seconds = tried[max(tried)].seconds * (side / max(tried)) ** (2 * power)
        if seconds > patience:
            return Largest(method, side, _extrapolated(tried, side), round(seconds, 2), False)
        tried[side] = _peak(method, channels, side, device)
    side = max((s for s, peak in tried.items() if peak.bytes <= budget), default=min(tried))
    return Largest(method, side, tried[side].bytes, round(tried[side].seconds, 3), True)


def _peak(method: str, channels: int, side: int, device: str) -> Peak:
    arguments = (method, channels, side, True, device)
    return peak_of(block_step, *arguments, device=device, runs=1, with_inputs=True)


def _law(tried: dict[int, Peak]) -> tuple[float, float, int]:
    """Power of the side with which the peak grows, at the two largest sides, and the last of them.

    Between 2 and 4: bytes grow with the pixels, or with their square.
    """
    sides = sorted(tried)
    last = sides[-1]
    if len(sides) == 1:
        return 2.0, tried[last].bytes, last
    before = sides[-2]
    grown = math.log(max(1, tried[last].bytes) / max(1, tried[before].bytes))
    return min(4.0, max(2.0, grown / math.log(last / before))), tried[last].bytes, last


def _within(tried: dict[int, Peak], budget: int) -> int:
    """The largest side whose extrapolated peak is within the budget, not above one that failed."""
    power, peak, last = _law(tried)
    side = int(last * (budget / max(1, peak)) ** (1 / power)) // STEP * STEP
    failed = [s for s, found in tried.items() if found.bytes > budget]
    return max(STEP, min([side, *(s - STEP for s in failed)]))


def _extrapolated(tried: dict[int, Peak], side: int) -> int:
    power, peak, last = _law(tried)
    return round(peak * (side / last) ** power)


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
