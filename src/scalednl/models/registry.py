"""The networks that the paper names, built as in the authors' release.

| name | network |
|---|---|
| `preresnet<depth>` | CIFAR: depth 6n + 2 of BasicBlock below 44, 9n + 2 of Bottleneck from 44 |
| `preresnet{18,34,50,101}_tiny` | Tiny-ImageNet: 7x7 stem, four stages |
| `wrn<depth>_<width>` | wide networks, depth = 6n + 4 |
"""

import re
from difflib import get_close_matches
from functools import partial

from torch import nn

from scalednl.config import ModelConfig, NonLocalConfig
from scalednl.models.residual import BasicBlock, Bottleneck, ResidualNetwork, conv3x3
from scalednl.options import check_positive

BASIC_BELOW = 44
DEEPEST = 10_000
TINY = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
    101: (Bottleneck, (3, 4, 23, 3)),
}
KNOWN = (
    *(f"preresnet{depth}" for depth in (8, 20, 32, 56, 110, 164)),
    *(f"preresnet{depth}_tiny" for depth in TINY),
    *("wrn16_4", "wrn28_10", "wrn40_4"),
)


def list_models() -> list[str]:
    """Names that `create_model` takes; the patterns above admit other depths and widths too."""
    return sorted(KNOWN)


def create_model(
    name: str,
    num_classes: int = 10,
    nonlocal_: NonLocalConfig | None = None,
    position: bool | None = None,
) -> ResidualNetwork:
    """A network that the paper names, with or without non-local blocks.

    Args:
        name: one of `list_models()`, or another depth or width by the same patterns.
        num_classes: outputs of the classifier.
        nonlocal_: the stack of blocks; None or `blocks=0` is the plain network.
        position: the fixed encoding before the stack; None adds it where there are blocks. True
            without blocks is the position-only control.
    """
    check_positive("num_classes", num_classes)
    network = _make(name, num_classes, nonlocal_, position)
    network.config = ModelConfig(name, num_classes, nonlocal_, position)
    return network


def _make(
    name: str, num_classes: int, nonlocal_: NonLocalConfig | None, position: bool | None
) -> ResidualNetwork:
    options = (num_classes, nonlocal_, position)
    if found := re.fullmatch(r"preresnet(\d+)", name):
        block, depth = _cifar_depth(int(found[1]))
        return ResidualNetwork(conv3x3(3, 16), block, (depth,) * 3, (16, 32, 64), *options)
    if (found := re.fullmatch(r"preresnet(\d+)_tiny", name)) and int(found[1]) in TINY:
        block, depths = TINY[int(found[1])]
        stem = nn.Conv2d(3, 64, 7, padding=3, bias=False)
        return ResidualNetwork(stem, block, depths, (64, 128, 256, 512), *options)
    if found := re.fullmatch(r"wrn(\d+)_(\d+)", name):
        depth, width = _wide_depth(int(found[1])), int(found[2])
        check_positive("width", width)
        wide = partial(BasicBlock, shared_activation=True)
        planes = (16 * width, 32 * width, 64 * width)
        return ResidualNetwork(conv3x3(3, 16), wide, (depth,) * 3, planes, *options)
    near = get_close_matches(name, KNOWN, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"use one of {', '.join(KNOWN)}"
    raise ValueError(f"unknown model {name!r}: {hint}")


def _cifar_depth(depth: int) -> tuple[type[BasicBlock] | type[Bottleneck], int]:
    """The residual block and how many of it a stage has."""
    _check_depth(depth)
    block, convs = (BasicBlock, 6) if depth < BASIC_BELOW else (Bottleneck, 9)
    if depth < 8 or (depth - 2) % convs:
        near = _near(depth, [d for d in range(max(8, depth - 20), depth + 20) if _divides(d)])
        raise ValueError(
            f"preresnet{depth} does not exist: depth must be 6n + 2 below {BASIC_BELOW} and 9n + 2 "
            f"from there on; near it are {near}"
        )
    return block, (depth - 2) // convs


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise ValueError(f"a network of depth {depth} makes no sense: give at most {DEEPEST}")


def _divides(depth: int) -> bool:
    return (depth - 2) % (6 if depth < BASIC_BELOW else 9) == 0


def _wide_depth(depth: int) -> int:
    _check_depth(depth)
    if depth < 10 or (depth - 4) % 6:
        near = _near(depth, [d for d in range(max(10, depth - 20), depth + 20) if (d - 4) % 6 == 0])
        raise ValueError(f"wrn depth {depth} does not exist: it must be 6n + 4; near it are {near}")
    return (depth - 4) // 6


def _near(depth: int, valid: list[int]) -> str:
    closest = sorted(sorted(valid, key=lambda d: abs(d - depth))[:2])
    return " and ".join(str(d) for d in closest)
