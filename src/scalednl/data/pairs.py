"""`pairs`: generated images whose class no local feature predicts.

Two oriented gratings lie in opposite quadrants of a noisy image, one red, one blue. The class is
the difference of their orientations: who looks at one of them, or at an average of both, learns
nothing.

Images depend on nothing but the options and the seed, on every platform: they come from the raw
64-bit numbers of a PCG generator by whole-number arithmetic, and from tables
of cosines and quantiles rounded to 1/256 of a grey level.
"""

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from scalednl.config import PairsConfig
from scalednl.data.splits import Bytes, Labels, Split
from scalednl.seeds import derive_seed

GREY = 128
LEVELS = 40
"""Grey levels of one unit of amplitude or noise"""
PHASES = 256
FIXED = 256
"""Fixed point: this many steps a grey level"""
RED, GREEN, BLUE = 0, 1, 2
CHUNK = 250

Place = tuple[Labels, Labels]
"""Row and column of every image's patch"""
Flags = npt.NDArray[np.bool_]
Whole = npt.NDArray[np.int32]


def make_pairs(config: PairsConfig, seed: int = 0) -> tuple[Split, Split]:
    """The training and the test split of a seed, which share no random number."""
    return (
        generate(config, config.train_images, derive_seed(seed, "pairs", "train")),
        generate(config, config.test_images, derive_seed(seed, "pairs", "test")),
    )


def class_names(config: PairsConfig) -> tuple[str, ...]:
    """The turn from the blue grating to the red one."""
    step = 180 / config.orientations
    return tuple(f"turned by {k * step:g} degrees" for k in range(config.orientations))


def generate(config: PairsConfig, count: int, seed: int) -> Split:
    """`count` images; a longer list begins with the shorter one."""
    tables = _gratings(config), _quantiles(config.noise)
    layout_source, noise_source = (np.random.PCG64(derive_seed(seed, part)) for part in "ln")
    images, labels = [], []
    for first in range(0, count, CHUNK):
        # Whole chunks, so that the streams do not depend on `count`.
        pixels, classes = _chunk(config, *tables, layout_source, noise_source)
        images.append(pixels[: count - first])
        labels.append(classes[: count - first])
    return Split(np.concatenate(images), np.concatenate(labels))


def _chunk(
    config: PairsConfig,
    table: Whole,
    quantiles: Whole,
    layout: np.random.PCG64,
    noise: np.random.PCG64,
) -> tuple[Bytes, Labels]:
    canvas = _noise(config, quantiles, noise)
    red, blue = (_below(layout, config.orientations) for _ in range(2))
    (red_at, blue_at), others = _places(config, layout)
    _paint(canvas, RED, table[red, _below(layout, PHASES)], red_at)
    _paint(canvas, BLUE, table[blue, _below(layout, PHASES)], blue_at)
    for place in others:
        turn, phase = _below(layout, config.orientations), _below(layout, PHASES)
        _paint(canvas, GREEN, table[turn, phase], place)
    canvas += GREY * FIXED + FIXED // 2
    levels = np.clip(canvas // FIXED, 0, 255).astype(np.uint8)
    return levels, (red - blue) % config.orientations


def _places(
    config: PairsConfig, source: np.random.PCG64
) -> tuple[tuple[Place, Place], list[Place]]:
    """Upper left corners of the red, the blue and the green patches."""
    half, free = config.side // 2, config.side // 2 - config.patch + 1
    low, right = _below(source, 2) * half, _below(source, 2) * half
    corners = [(_below(source, free), _below(source, free)) for _ in range(4)]
    rows = (low, half - low, low, half - low)
    columns = (right, half - right, half - right, right)
    places = [
        (row + corner[0], column + corner[1])
        for row, column, corner in zip(rows, columns, corners, strict=True)
    ]
    if config.distance is not None:
        places[:2] = _apart(config, source, low > 0, right > 0)
    return (places[0], places[1]), places[2 : 2 + config.distractors]


def _apart(config: PairsConfig, source: np.random.PCG64, low: Flags, right: Flags) -> list[Place]:
    """Two corners `distance` apart in rows and columns, the first in the given direction."""
    assert config.distance is not None
    room = config.side - config.patch - config.distance + 1
    top, left = _below(source, room), _below(source, room)
    rows = top + np.where(low, config.distance, 0), top + np.where(low, 0, config.distance)
    columns = left + np.where(right, config.distance, 0), left + np.where(right, 0, config.distance)
    return [(rows[0], columns[0]), (rows[1], columns[1])]


def _paint(canvas: Whole, channel: int, patches: Whole, at: Place) -> None:
    span = np.arange(patches.shape[-1])
    image = np.arange(len(canvas))[:, None, None]
    rows, columns = at[0][:, None, None] + span[:, None], at[1][:, None, None] + span
    canvas[image, rows, columns, channel] += patches


def _gratings(config: PairsConfig) -> Whole:
    """Every orientation and phase as a patch, in 1/256 grey levels."""
    middle = (config.patch - 1) / 2
    offsets = [index - middle for index in range(config.patch)]
    scale = config.amplitude * LEVELS * FIXED
    table = np.empty((config.orientations, PHASES, config.patch, config.patch))
    turns = 2 * math.pi * np.arange(PHASES) / PHASES
    for turn in range(config.orientations):
        angle = math.pi * turn / config.orientations
        for i, y in enumerate(offsets):
            for j, x in enumerate(offsets):
                along = x * math.cos(angle) + y * math.sin(angle)
                window = math.exp(-(x * x + y * y) / (2 * config.window**2))
                wave = np.cos(2 * math.pi * along / config.wavelength + turns)
                table[turn, :, i, j] = scale * window * wave
    return np.rint(table).astype(np.int32)


def _noise(config: PairsConfig, table: Whole, source: np.random.PCG64) -> Whole:
    """Normal noise for a chunk: every 16 random bits are one value."""
    values = CHUNK * config.side * config.side * 3
    raw = source.random_raw((values + 3) // 4)
    # The lowest bits first, whatever the platform's byte order.
    draws = raw.astype("<u8", copy=False).view("<u2")[:values]
    return table[draws].reshape(CHUNK, config.side, config.side, 3)


def _quantiles(noise: float) -> Whole:
    """The middles of 65536 equally likely parts of a normal distribution, in 1/256 grey levels."""
    normal = NormalDist(0, noise * LEVELS * FIXED) if noise else None
    upper = [
        0 if normal is None else round(normal.inv_cdf((32768 + k + 0.5) / 65536))
        for k in range(32768)
    ]
    return np.array([*(-value for value in reversed(upper)), *upper], np.int32)


def _below(source: np.random.PCG64, limit: int) -> Labels:
    """One whole number in 0 to limit - 1 for every image of a chunk."""
    return ((source.random_raw(CHUNK) >> np.uint64(32)) * np.uint64(limit) >> np.uint64(32)).astype(
        np.int64
    )
