"""The largest map that fits into a given memory, found by measuring fresh processes."""

import math

from scalednl.lab.bench.blocks import block_step
from scalednl.lab.bench.peak import Peak, peak_of
from scalednl.lab.records.bench import LargestMap
from scalednl.lab.records.methods import MAIN_METHODS

FIRST, STEP = 64, 8
"""The first side that is measured; sides that are found are multiples of the second number"""


def largest_maps(budget: int, patience: float, channels: int, device: str) -> list[LargestMap]:
    """The largest map of every method that can be trained on, input and gradient included.

    `patience` are the seconds that one step may take; what takes longer is extrapolated.
    """
    return [_largest(method, budget, patience, channels, device) for method in MAIN_METHODS]


def _largest(method: str, budget: int, patience: float, channels: int, device: str) -> LargestMap:
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
            return LargestMap(method, side, _extrapolated(tried, side), round(seconds, 2), False)
        tried[side] = _peak(method, channels, side, device)
    side = max((s for s, peak in tried.items() if peak.bytes <= budget), default=min(tried))
    return LargestMap(method, side, tried[side].bytes, round(tried[side].seconds, 3), True)


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
