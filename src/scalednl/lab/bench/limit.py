"""The machine's limit: how fast it multiplies large matrices and copies memory."""

from collections.abc import Callable

import torch

from scalednl.lab.bench.measure import interleaved
from scalednl.lab.records.floor import MachineLimit

SIDE, COPIED = 2048, 1 << 27
"""The matrices' side, at which a product runs at the full rate; bytes to copy, more than caches
hold"""
ON_GPU = 4
"""A GPU needs larger ones"""
ROUNDS = 6


def machine_limit(device: str = "cpu") -> MachineLimit:
    """The best of `ROUNDS` products and copies with torch's current threads: under a second."""
    larger = 1 if torch.device(device).type == "cpu" else ON_GPU
    side, copied = larger * SIDE, larger * COPIED
    product, copy = _product(side, device), _copy(copied, device)
    rounds = interleaved({"product": product, "copy": copy}, ROUNDS, warm_up=1, device=device)
    multiplying, copying = (min(r[name].seconds for r in rounds) for name in ("product", "copy"))
    return MachineLimit(float(f"{side**3 / multiplying:.4g}"), float(f"{2 * copied / copying:.4g}"))


def _product(side: int, device: str) -> Callable[[], object]:
    a, b, c = (torch.ones(side, side, device=device) for _ in range(3))
    return lambda: torch.mm(a, b, out=c)


def _copy(size: int, device: str) -> Callable[[], object]:
    source, target = (torch.ones(size // 4, device=device) for _ in range(2))
    return lambda: target.copy_(source)
