"""`recall`: generated images whose class needs a choice among several pairs of places.

At each edge of a noisy image stand a few gratings of different colours. One colour occurs at both
edges; the class is the difference of the orientations of its two gratings, (left - right) mod k.
The colours are keys and the orientations values: a network must find, for a grating on one side,
the value that the other side stores under the same key.

**What a network without global context can reach.** As for `pairs`: if no unit of the last
convolution sees both edges (`RecallConfig.gap`), scores are additive in the left and the right
side, the class is uniform given everything on one side, and so no additive score has a
cross-entropy below log k.

**What attention that ignores the query can reach.** If all queries see the same, attention adds
one vector to all pixels. To solve the task, that vector must hold a table: the orientation of every
colour of one side, at least one number per colour. A query that looks for its own colour needs one
entry. So with fewer embedding channels than colours there is no room for one number per colour, and
with more the task does not exclude the first solution: docs/data.md has measurements.
"""

import numpy as np

from scalednl.lab.config import RecallConfig
from scalednl.lab.config.generated import COLOURS
from scalednl.lab.data.gratings import (
    BLUE,
    GREEN,
    PHASES,
    RED,
    Source,
    Steps,
    below,
    edge_columns,
    grating_table,
    paint,
    shuffled,
)
from scalednl.lab.data.splits import Labels

CHANNELS = {
    "red": (RED,),
    "blue": (BLUE,),
    "green": (GREEN,),
    "yellow": (RED, GREEN),
    "magenta": (RED, BLUE),
    "cyan": (GREEN, BLUE),
}


def assign(order: Labels, per_side: int) -> tuple[Labels, Labels]:
    """Colours of the left and the right side, one row per image, from random orders of colours.

    The first colour of an order stands on both sides, in the first column.
    """
    return order[:, :per_side], np.delete(order, range(1, per_side), 1)[:, :per_side]


def orientations(first: Labels, others: Labels, label: Labels, k: int) -> tuple[Labels, Labels]:
    """Orientations of the left and the right side; the first columns differ by the label.

    Args:
        first: the shared colour's orientation on the left.
        others: orientations of the other gratings, left and then right, one row per image.
        label: the class, (left - right) mod k.
        k: number of orientations.
    """
    left, right = np.split(others, 2, axis=1)
    shared = first[:, None], ((first - label) % k)[:, None]
    return np.hstack([shared[0], left]), np.hstack([shared[1], right])


def draw(config: RecallConfig, canvas: Steps, source: Source) -> Labels:
    """Add the gratings of both sides to every image of a chunk; the classes."""
    k, rest = config.orientations, 2 * (config.per_side - 1)
    colours = assign(shuffled(source, config.colours), config.per_side)
    label, first = below(source, k), below(source, k)
    others = np.empty((len(canvas), rest), np.int64)
    for column in range(rest):
        others[:, column] = below(source, k)
    turned = orientations(first, others, label, k)
    for far in (0, 1):
        _paint_side(config, canvas, source, colours[far], turned[far], far)
    return label


def _paint_side(
    config: RecallConfig,
    canvas: Steps,
    source: Source,
    colours: Labels,
    turned: Labels,
    far: int,
) -> None:
    """Gratings below each other, in a random order."""
    table = grating_table(config.patch, config.orientations)
    band = config.height // config.per_side
    slots = shuffled(source, config.per_side)
    for item in range(config.per_side):
        rows = slots[:, item] * band + below(source, band - config.patch + 1)
        columns = edge_columns(config, np.full(len(canvas), far), source)
        patches = table[turned[:, item], below(source, PHASES)]
        for channel in (RED, GREEN, BLUE):
            has = np.array([channel in CHANNELS[colour] for colour in COLOURS])[colours[:, item]]
            paint(canvas, channel, patches * has[:, None, None], rows, columns)
