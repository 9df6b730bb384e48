"""`pairs`: generated images whose class no local feature predicts.

Two oriented gratings stand at opposite edges of a noisy image, one red, one blue. The class is
the difference of their orientations, (red - blue) mod k.

**What a network without global context can reach.** If every unit of the last convolution sees at
most one of the two gratings (`PairsConfig.gap`), a score after global average pooling and a linear
classifier is a sum s_c = f_c(red grating) + g_c(blue grating): it is additive. The class is uniform
given either grating. So the gradient of the expected cross-entropy with respect to every f and g
is zero where all scores are equal, and because cross-entropy is convex in the scores, no additive
score has less than log k: training has nothing to learn, and what it learns from the accidents of
a finite training set does not transfer.

Error is not convex, and its bound is weaker. An additive score *can* be right for 3/4 of the
images if k is even: 2 c t - c^2 with t = red + (k - 1 - blue), an integer from 0 to 2k - 2, is
additive, and its argmax decodes any k consecutive values of t. More is impossible: in
the cells {r, r + k/2} x {b, b + k/2} two classes alternate as in XOR, their four margins add up
to zero, so one of the four is wrong, and these squares cover all cells. Such a score has a higher
cross-entropy than a constant one, which is why gradient descent does not find it.
"""

from scalednl.lab.config import PairsConfig
from scalednl.lab.data import gratings
from scalednl.lab.data.gratings import BLUE, PHASES, RED, Source, Steps, below, paint
from scalednl.lab.data.splits import Labels

Place = tuple[Labels, Labels]
"""Row and column of every image's patch"""


def draw(config: PairsConfig, canvas: Steps, source: Source) -> Labels:
    """Add a red and a blue grating to every image of a chunk; the classes."""
    table = gratings.grating_table(config.patch, config.orientations)
    red, blue = draw_orientations(config, source)
    red_at, blue_at = draw_places(config, source)
    paint(canvas, RED, table[red, below(source, PHASES)], *red_at)
    paint(canvas, BLUE, table[blue, below(source, PHASES)], *blue_at)
    return label(red, blue, config.orientations)


def label(red: Labels, blue: Labels, orientations: int) -> Labels:
    """The class of images whose gratings have these orientations."""
    return (red - blue) % orientations


def draw_orientations(config: PairsConfig, source: Source) -> tuple[Labels, Labels]:
    """Orientations of the red and the blue gratings of a chunk: uniform and independent."""
    return below(source, config.orientations), below(source, config.orientations)


def draw_places(config: PairsConfig, source: Source) -> tuple[Place, Place]:
    """Upper left corners of the red and the blue gratings of a chunk, at opposite edges."""
    far, rows = below(source, 2), config.height - config.patch + 1
    red, blue = (
        (below(source, rows), gratings.edge_columns(config, right, source))
        for right in (far, 1 - far)
    )
    return red, blue
