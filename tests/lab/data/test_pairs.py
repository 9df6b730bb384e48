"""`pairs` is the same everywhere, is what it claims to be, and no part of it predicts the class."""

import hashlib
import math

import numpy as np
import numpy.typing as npt
import pytest

from scalednl.lab.config import PairsConfig
from scalednl.lab.data import load_data
from scalednl.lab.data.gratings import BLUE, GREEN, RED, Source, generate
from scalednl.lab.data.pairs import draw, draw_orientations, draw_places, label
from tests.lab.data.gratings import orientation

Numbers = npt.NDArray[np.float64]

# Whole-number arithmetic: these hold on every platform.
OTHER = PairsConfig(height=11, width=25, patch=9, jitter=3, noise=0.5, orientations=6)
GOLDEN = {PairsConfig(): "10ca60ccd618211f", OTHER: "35a47bc9e90c94b8"}


@pytest.mark.parametrize("config", GOLDEN, ids=["default", "options"])
def test_images_are_the_same_everywhere(config: PairsConfig) -> None:
    """The first images of seed 7 have a known hash."""
    split = generate(config, draw, 20, 7)
    content = split.images.tobytes() + split.labels.astype("<i8").tobytes()
    assert hashlib.sha256(content).hexdigest()[:16] == GOLDEN[config]


def test_the_class_is_the_difference_of_orientations() -> None:
    """Measured from the pixels, without noise, the class is right for every image."""
    config = PairsConfig(noise=0.0, orientations=4)
    split = generate(config, draw, 200, 0)
    for image, wanted in zip(split.images.astype(float), split.labels, strict=True):
        turn = orientation(image[..., RED]) - orientation(image[..., BLUE])
        assert round(turn / 45) % 4 == wanted
        assert (image[..., GREEN] == 128).all()


@pytest.mark.parametrize("config", [PairsConfig(), OTHER], ids=["default", "options"])
def test_gratings_keep_their_distance(config: PairsConfig) -> None:
    """Drawn pixels stay at opposite edges with `gap` free columns between, which does occur."""
    split = generate(PairsConfig(**{**vars(config), "noise": 0.0}), draw, 500, 0)
    gaps, sides = [], set()
    for image in split.images.astype(int):
        (red, blue) = (np.flatnonzero((image[..., c] != 128).any(0)) for c in (RED, BLUE))
        first, second = (red, blue) if red[0] < blue[0] else (blue, red)
        gaps.append(second[0] - first[-1] - 1)
        sides.add(red[0] < blue[0])
    assert min(gaps) == config.gap
    assert sides == {True, False}


def _table(k: int) -> npt.NDArray[np.int64]:
    red, blue = np.indices((k, k))
    return label(red, blue, k)


@pytest.mark.parametrize("k", range(2, 9))
def test_one_grating_does_not_predict_the_class(k: int) -> None:
    """Every class occurs exactly once for every red and for every blue orientation."""
    table = _table(k)
    for line in (*table, *table.T):
        assert sorted(line) == list(range(k))


def test_orientations_are_uniform_and_independent() -> None:
    """Counts of (red, blue, red on the left) over 20,000 of the generator's draws are uniform."""
    config, source = PairsConfig(), Source(5)
    counts = np.zeros((4, 4, 2))
    for _ in range(80):
        red, blue = draw_orientations(config, source)
        (_, red_column), (_, blue_column) = draw_places(config, source)
        np.add.at(counts, (red, blue, (red_column < blue_column).astype(int)), 1)
    expected = counts.sum() / 32
    # Chi-square of 31 degrees of freedom exceeds 61.1 with a probability of 0.001.
    assert counts.sum() == 20_000
    assert ((counts - expected) ** 2 / expected).sum() < 61.1


def _cross_entropy(scores: Numbers, table: npt.NDArray[np.int64]) -> float:
    """Mean over all cells; `scores` has the axes class, red, blue."""
    logs = scores - np.log(np.exp(scores).sum(0))
    return float(-np.take_along_axis(logs, table[None], 0).mean())


def _additive(f: Numbers, g: Numbers) -> Numbers:
    """Scores f_c(red) + g_c(blue)."""
    return f[:, :, None] + g[:, None, :]


def test_no_additive_score_has_less_cross_entropy_than_chance() -> None:
    """From equal scores every direction of f and g leads upwards, near and far."""
    numbers = np.random.default_rng(0)
    for k in (2, 3, 4, 6):
        table = _table(k)
        for size in (0.01, 0.3, 3.0):
            for _ in range(50):
                scores = _additive(*numbers.normal(0, size, (2, k, k)))
                assert _cross_entropy(scores, table) > math.log(k)


def _best_additive(k: int) -> Numbers:
    """Decodes t = red + k - 1 - blue where it is one of the k most frequent values."""
    steps = np.arange(k)
    values = np.arange(k) + k - 1 - k // 2
    classes = (values - (k - 1)) % k
    f = np.empty((k, k))
    g = np.empty((k, k))
    for value, c in zip(values, classes, strict=True):
        f[c] = 2 * value * steps - value**2
        g[c] = 2 * value * (k - 1 - steps)
    return _additive(f, g)


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_the_best_additive_score_is_right_for_three_quarters(k: int) -> None:
    """A score reaches 3/4, at a cross-entropy above chance, and squares of XOR exclude more."""
    table, scores = _table(k), _best_additive(k)
    assert (scores.argmax(0) == table).mean() == 0.75
    for scale in (1e-3, 0.1, 1.0):
        assert _cross_entropy(scale * scores, table) > math.log(k)
    half, covered = k // 2, np.zeros((k, k), int)
    for r in range(half):
        for b in range(half):
            rows, columns = np.ix_([r, r + half], [b, b + half])
            (one, two), (three, four) = table[rows, columns]
            assert one == four
            assert two == three
            assert one != two
            covered[rows, columns] += 1
    assert (covered == 1).all()


def test_pairs_load_by_name() -> None:
    """load_data gives both splits, names of classes, and a normalisation of one unit."""
    data = load_data("pairs", options=PairsConfig(train_images=50, test_images=20), seed=3)
    assert (len(data.train), len(data.test)) == (50, 20)
    assert data.class_names == tuple(f"turned by {a} degrees" for a in (0, 45, 90, 135))
    grey = (128 / 255 - data.mean[0]) / data.std[0]
    assert grey == 0
    assert abs(40 / 255 / data.std[0] - 1) < 1e-9
