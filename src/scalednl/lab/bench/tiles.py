"""A map that is never whole, attended to in tiles: its error, and the memory it takes."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from scalednl.blocks import NonLocal2d
from scalednl.lab.bench.agreement import require
from scalednl.lab.bench.measure import relative_error
from scalednl.lab.bench.options import short_bytes
from scalednl.lab.bench.peak import peak_of
from scalednl.ops.moments import Moments

CHANNELS, TILE = 64, 256


@dataclass(frozen=True)
class Tiled:
    """What a pass in tiles costs, and how far it is from the whole map at once."""

    side: int
    tiles: int
    error: float
    peak_bytes: int
    tile_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    def __str__(self) -> str:
        peak, tile = short_bytes(self.peak_bytes), short_bytes(self.tile_bytes)
        return (
            f"In {self.tiles} tiles through Moments, {self.side}x{self.side} pixels attend to one "
            f"another in {peak};\na tile is {tile}, the error against the whole map at once "
            f"{self.error:.0e}."
        )


def tiled_pass(side: int) -> Tiled:
    """Attend over side x side pixels of 64 channels tile by tile, in evaluation."""
    error = require(_error(side), f"a map of {side}x{side} in tiles")
    peak = peak_of(tiled_step, side, runs=1)
    return Tiled(side, (side // TILE) ** 2, error, peak.bytes, CHANNELS * TILE * TILE * 4)


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
    """The largest relative error of any tile."""
    block, moments = _block(), _seen(side)
    whole = torch.empty(1, CHANNELS, side, side)
    for r, c in _corners(side):
        whole[:, :, r : r + TILE, c : c + TILE] = _tile(r, c)
    truth = block(whole)
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
