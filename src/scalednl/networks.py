"""Shapes of the networks that the paper names, as in the authors' release. Imports no torch.

| name | network |
|---|---|
| `preresnet<depth>` | CIFAR: depth 6n + 2 of basic blocks below 44, 9n + 2 of bottlenecks from 44 |
| `preresnet{18,34,50,101}_tiny` | Tiny-ImageNet: 7x7 stem, four stages |
| `wrn<depth>_<width>` | wide networks, depth = 6n + 4 |
"""

import re
from dataclasses import dataclass
from typing import Literal

from scalednl.config import is_foreign
from scalednl.options import check_positive, suggestion

BASIC_BELOW = 44
DEEPEST = 10_000
TINY_DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
KNOWN = (
    *(f"preresnet{depth}" for depth in (8, 20, 32, 56, 110, 164)),
    *(f"preresnet{depth}_tiny" for depth in TINY_DEPTHS),
    *("wrn16_4", "wrn28_10", "wrn40_4"),
)
EXPANSION = 4
"""Output channels of a bottleneck, relative to its 3x3 convolution"""


@dataclass(frozen=True)
class NetworkShape:
    """The shape of a residual network; every stage but the first halves height and width."""

    block: Literal["basic", "bottleneck", "wide"]
    """The kind of residual block"""
    depths: tuple[int, ...]
    """Residual blocks of each stage"""
    planes: tuple[int, ...]
    """Channels of the 3x3 convolutions of each stage"""
    stem_channels: int = 16
    stem_kernel: int = 3

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels after each stage."""
        return tuple(n * (EXPANSION if self.block == "bottleneck" else 1) for n in self.planes)


def network_shape(name: str) -> NetworkShape:
    """The shape behind a name; an unknown name or an impossible depth is a ValueError."""
    if not isinstance(name, str):
        raise ValueError(f"the name of a network must be a text such as {KNOWN[0]!r}, got {name!r}")
    if found := re.fullmatch(r"preresnet(\d+)", name):
        depth = int(found[1])
        rule = f"6n + 2 below {BASIC_BELOW} and 9n + 2 from there on"
        return NetworkShape(_kind(depth), (_blocks(name, depth, 2, rule),) * 3, (16, 32, 64))
    if (found := re.fullmatch(r"preresnet(\d+)_tiny", name)) and int(found[1]) in TINY_DEPTHS:
        depth = int(found[1])
        return NetworkShape(_kind(depth), TINY_DEPTHS[depth], (64, 128, 256, 512), 64, 7)
    if found := re.fullmatch(r"wrn(\d+)_(\d+)", name):
        depths = (_blocks(name, int(found[1]), 4, "6n + 4"),) * 3
        width = check_positive("width", int(found[2]))
        return NetworkShape("wide", depths, (16 * width, 32 * width, 64 * width))
    hint = suggestion(name, KNOWN) or f"; use one of {', '.join(KNOWN)}"
    if is_foreign(name):
        hint = ": it is not one of the paper's networks, so its shape is not known here"
    raise ValueError(f"unknown model {name!r}{hint}")


def is_network(name: str) -> bool:
    """Whether a name is that of a network here."""
    try:
        network_shape(name)
    except ValueError:
        return False
    return True


def _kind(depth: int) -> Literal["basic", "bottleneck"]:
    return "basic" if depth < BASIC_BELOW else "bottleneck"


def _blocks(name: str, depth: int, outside: int, rule: str) -> int:
    """Residual blocks of each of three stages; `outside` layers are not in a stage."""
    if depth > DEEPEST:
        raise ValueError(f"the depth of {name} must be at most {DEEPEST}")
    if _is_possible(depth, outside):
        return (depth - outside) // _convolutions(depth, outside)
    others = [other for other in range(depth - 20, depth + 20) if _is_possible(other, outside)]
    near = sorted(sorted(others, key=lambda other: abs(other - depth))[:2])
    raise ValueError(
        f"{name} does not exist: its depth must be {rule}; near it are {near[0]} and {near[1]}"
    )


def _is_possible(depth: int, outside: int) -> bool:
    return depth >= 6 + outside and (depth - outside) % _convolutions(depth, outside) == 0


def _convolutions(depth: int, outside: int) -> int:
    """3x3 convolutions of three basic blocks, or all convolutions of three bottlenecks."""
    return 9 if outside == 2 and _kind(depth) == "bottleneck" else 6
