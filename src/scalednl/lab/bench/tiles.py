"""A map that is never in memory as one tensor, attended to in tiles: its error and its memory."""

from collections.abc import Callable

import torch
from torch import Tensor

from scalednl.blocks import NonLocal2d
from scalednl.lab.bench.agreement import require
from scalednl.lab.bench.measure import relative_error
from scalednl.lab.bench.peak import peak_of
from scalednl.lab.records.bench import TiledPass
from scalednl.ops.moments import Moments

CHANNELS, TILE = 64, 256


def tiled_pass(side: int) -> TiledPass:
    """Attend over side x side pixels of 64 channels tile by tile, in evaluation."""
    error = require(_error(side), f"a map of {side}x{side} in tiles")
    peak = peak_of(tiled_step, side, runs=1)
    return TiledPass(side, (side // TILE) ** 2, error, peak.bytes, CHANNELS * TILE * TILE * 4)


def tiled_step(side: int) -> Callable[[], None]:
    """Both passes over the tiles, each made when it is its turn and dropped after."""
    block = _block()

    def step() -> None:
        with torch.no_grad():
            moments = _seen(side)
            for corner in _corners(side):
                block.apply_moments(_tile(*corner), moments)

    return step


@torch.no_grad()
def _error(side: int) -> float:
    """The largest relative error of any tile against all pixels at once."""
    block, moments = _block(), _seen(side)
    image = torch.empty(1, CHANNELS, side, side)
    for r, c in _corners(side):
        image[:, :, r : r + TILE, c : c + TILE] = _tile(r, c)
    truth = block(image)
    return max(
        relative_error(
            block.apply_moments(_tile(r, c), moments), truth[:, :, r : r + TILE, c : c + TILE]
        )
        for r, c in _corners(side)
    )


def _block() -> NonLocal2d:
    torch.manual_seed(0)
    return NonLocal2d(CHANNELS, norm_init=1.0).eval()


def _seen(side: int) -> Moments:
    moments = Moments()
    for corner in _corners(side):
        moments.update(_tile(*corner))
    return moments


def _corners(side: int) -> list[tuple[int, int]]:
    return [(r, c) for r in range(0, side, TILE) for c in range(0, side, TILE)]


def _tile(row: int, column: int) -> Tensor:
    generator = torch.Generator().manual_seed(row * 2048 + column)
    return torch.randn(1, CHANNELS, TILE, TILE, generator=generator) + 0.5
