"""Noisy images with gratings, from integer arithmetic.

Images depend on nothing but the options and the seed, on every platform: they come from the raw
64-bit numbers of a PCG generator by integer arithmetic, and from tables of cosines and
quantiles rounded to 1/256 of a grey level.
"""

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from scalednl.lab.config.generated import GratingsConfig
from scalednl.lab.data.splits import Labels, Split
from scalednl.lab.seeds import derive_seed

GREY = 128
LEVELS = 40
"""Grey levels of one unit of amplitude or noise"""
AMPLITUDE = 2.0
WAVELENGTH = 4.0
"""In pixels"""
WINDOW = 2.5
"""Standard deviation of a grating's Gaussian window, in pixels"""
PHASES = 256
FIXED = 256
"""Fixed point: steps per grey level"""
CHUNK = 250
"""Images generated together"""
RED, GREEN, BLUE = 0, 1, 2

Config = TypeVar("Config", bound=GratingsConfig)
Source = np.random.PCG64
Steps = npt.NDArray[np.int32]
"""Grey levels in steps of 1/256"""
Draw = Callable[[Config, Steps, Source], Labels]
"""Adds gratings to a chunk of images and returns their classes"""


def make_splits(config: Config, draw: Draw[Config], seed: int) -> tuple[Split, Split]:
    """The training split of a seed, and the test split, which is the same for every seed.

    They share no random number.
    """
    return (
        generate(config, draw, config.train_images, derive_seed(seed, config.name, "train")),
        generate(config, draw, config.test_images, derive_seed(0, config.name, "test")),
    )


def generate(config: Config, draw: Draw[Config], count: int, seed: int) -> Split:
    """`count` images of noise and what `draw` adds; a longer list begins with the shorter one."""
    size, table = (config.height, config.width), _quantiles(config.noise)
    layout_source, noise_source = (Source(derive_seed(seed, part)) for part in "ln")
    images, labels = [], []
    for first in range(0, count, CHUNK):
        # Complete chunks, so that the random streams do not depend on `count`.
        canvas = _noise(size, table, noise_source)
        classes = draw(config, canvas, layout_source)
        canvas += GREY * FIXED + FIXED // 2
        images.append(np.clip(canvas // FIXED, 0, 255).astype(np.uint8)[: count - first])
        labels.append(classes[: count - first])
    return Split(np.concatenate(images), np.concatenate(labels))


def paint(canvas: Steps, channel: int, patches: Steps, rows: Labels, columns: Labels) -> None:
    """Add one patch per image to a channel, with its upper left corner at (row, column)."""
    span = np.arange(patches.shape[-1])
    image = np.arange(len(canvas))[:, None, None]
    down, across = rows[:, None, None] + span[:, None], columns[:, None, None] + span
    canvas[image, down, across, channel] += patches


def turn_names(orientations: int) -> tuple[str, ...]:
    """Names of the classes: the turn from one grating to another."""
    return tuple(f"turned by {k * 180 / orientations:g} degrees" for k in range(orientations))


def below(source: Source, limit: int) -> Labels:
    """One integer in 0 to limit - 1 for every image of a chunk."""
    return ((source.random_raw(CHUNK) >> np.uint64(32)) * np.uint64(limit) >> np.uint64(32)).astype(
        np.int64
    )


def edge_columns(config: GratingsConfig, far: Labels, source: Source) -> Labels:
    """First columns of patches near the left edge (`far` 0) or the right edge (`far` 1)."""
    offset = below(source, config.jitter + 1)
    return np.where(far == 1, config.width - config.patch - offset, offset)


def shuffled(source: Source, count: int) -> Labels:
    """One random order of 0 to count - 1 for every image of a chunk, as rows."""
    keys = source.random_raw(CHUNK * count).reshape(CHUNK, count)
    return np.argsort(keys, axis=1, kind="stable")


@cache
def grating_table(patch: int, orientations: int) -> Steps:
    """Every orientation and phase as a patch, in 1/256 grey levels."""
    middle = (patch - 1) / 2
    offsets = [index - middle for index in range(patch)]
    table = np.empty((orientations, PHASES, patch, patch))
    phases = 2 * math.pi * np.arange(PHASES) / PHASES
    for turn in range(orientations):
        angle = math.pi * turn / orientations
        for i, y in enumerate(offsets):
            for j, x in enumerate(offsets):
                along = x * math.cos(angle) + y * math.sin(angle)
                window = math.exp(-(x * x + y * y) / (2 * WINDOW**2))
                wave = np.cos(2 * math.pi * along / WAVELENGTH + phases)
                table[turn, :, i, j] = AMPLITUDE * LEVELS * FIXED * window * wave
    return np.rint(table).astype(np.int32)


def _noise(size: tuple[int, int], table: Steps, source: Source) -> Steps:
    """Normal noise for a chunk: every 16 random bits give one value."""
    values = CHUNK * size[0] * size[1] * 3
    raw = source.random_raw((values + 3) // 4)
    # The lowest bits first, whatever the platform's byte order.
    draws = raw.astype("<u8", copy=False).view("<u2")[:values]
    return table[draws].reshape(CHUNK, *size, 3)


@cache
def _quantiles(noise: float) -> Steps:
    """The middles of 65536 equally likely parts of a normal distribution, in 1/256 grey levels."""
    normal = NormalDist(0, noise * LEVELS * FIXED) if noise else None
    upper = [
        0 if normal is None else round(normal.inv_cdf((32768 + k + 0.5) / 65536))
        for k in range(32768)
    ]
    return np.array([*(-value for value in reversed(upper)), *upper], np.int32)
