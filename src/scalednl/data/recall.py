"""`recall`: generated images whose class needs a comparison of many pairs of places.

Every key, a colour, has one grating at the left edge and one at the right edge, each side in an
order of its own. For one colour both have the same orientation, for all others they differ; the
class is that colour.

**What a network without global context can reach.** If no unit of its last convolution sees both
sides (`RecallConfig.gap`), its scores are additive, s_c = f_c(left) + g_c(right). The class is
uniform given everything on one side: the orientations of either side alone are uniform whatever the
class. As for `pairs`, no additive score then has a cross-entropy below log(keys).

**What one context vector can reach.** Attention that is the same for all queries adds the same
vector to all pixels. To compare the sides with it, that vector must hold a table of the
orientation of every colour, keys * (values - 1) numbers, while a query that finds its own colour
needs one orientation. A head narrower than the table therefore separates the two; linear attention
holds the table in its d x d state, and runs out when there are more keys than d.
"""

from functools import partial

import numpy as np

from scalednl.config import RecallConfig
from scalednl.config.generated import COLOURS
from scalednl.data.gratings import (
    BLUE,
    GREEN,
    PHASES,
    RED,
    Source,
    Whole,
    below,
    edge_columns,
    generate_images,
    grating_table,
    paint,
    shuffled,
)
from scalednl.data.splits import Labels, Split
from scalednl.seeds import derive_seed

CHANNELS = {
    "red": (RED,),
    "blue": (BLUE,),
    "green": (GREEN,),
    "yellow": (RED, GREEN),
    "magenta": (RED, BLUE),
    "cyan": (GREEN, BLUE),
}


def make_recall(config: RecallConfig, seed: int = 0) -> tuple[Split, Split]:
    """The training and the test split of a seed, which share no random number."""
    return (
        generate(config, config.train_images, derive_seed(seed, "recall", "train")),
        generate(config, config.test_images, derive_seed(seed, "recall", "test")),
    )


def recall_class_names(config: RecallConfig) -> tuple[str, ...]:
    """The colours of the keys."""
    return COLOURS[: config.keys]


def generate(config: RecallConfig, count: int, seed: int) -> Split:
    """`count` images; a longer list begins with the shorter one."""
    return generate_images(config, count, seed, partial(_draw, config))


def orientations(left: Labels, turns: Labels, label: Labels, values: int) -> Labels:
    """The right side's orientations: left + turn, and left itself for the key `label`.

    Args:
        left: orientations on the left, one row per image and one column per key.
        turns: numbers in 1 to values - 1, likewise.
        label: the key that agrees.
        values: number of orientations.
    """
    agrees = np.arange(left.shape[1]) == label[:, None]
    return np.where(agrees, left, (left + turns) % values)


def _draw(config: RecallConfig, canvas: Whole, source: Source) -> Labels:
    keys, values = config.keys, config.values
    label = below(source, keys)
    left = np.stack([below(source, values) for _ in range(keys)], 1)
    turns = np.stack([1 + below(source, values - 1) for _ in range(keys)], 1)
    right = orientations(left, turns, label, values)
    for far, side in enumerate((left, right)):
        _paint_side(config, canvas, source, side, np.full(len(label), far))
    return label


def _paint_side(
    config: RecallConfig, canvas: Whole, source: Source, turned: Labels, far: Labels
) -> None:
    """One grating per key, below each other in a random order."""
    table = grating_table(config.patch, config.values)
    band = config.height // config.keys
    slots = shuffled(source, config.keys)
    for key, colour in enumerate(recall_class_names(config)):
        rows = slots[:, key] * band + below(source, band - config.patch + 1)
        columns = edge_columns(config, far, source)
        patches = table[turned[:, key], below(source, PHASES)]
        paint(canvas, CHANNELS[colour], patches, rows, columns)
