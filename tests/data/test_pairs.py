"""`pairs` is the same everywhere, holds what it says, and no part of it gives the class away."""

import hashlib

import numpy as np
import pytest

from scalednl.config import PairsConfig
from scalednl.data import load_data
from scalednl.data.pairs import BLUE, GREEN, RED, class_names, generate, make_pairs
from scalednl.errors import UsageError

# Whole-number arithmetic: these hold on every platform.
HARD = PairsConfig(side=24, patch=7, noise=0.5, orientations=6, distractors=2, distance=9)
GOLDEN = {PairsConfig(): "1ad1fecc344aba12", HARD: "84ef6944615e7e9c"}


@pytest.mark.parametrize("config", GOLDEN, ids=["default", "options"])
def test_images_are_the_same_everywhere(config: PairsConfig) -> None:
    """The first images of seed 7 have a known hash."""
    split = generate(config, 20, 7)
    content = split.images.tobytes() + split.labels.astype("<i8").tobytes()
    assert hashlib.sha256(content).hexdigest()[:16] == GOLDEN[config]


def test_seeds_and_splits_share_nothing() -> None:
    """Other seeds and the test split have other images; a longer list begins with the shorter."""
    config = PairsConfig(train_images=300, test_images=300)
    train, test = make_pairs(config, seed=1)
    assert not (train.images == test.images).all(axis=(1, 2, 3)).any()
    other, _ = make_pairs(config, seed=2)
    assert not (train.images == other.images).all(axis=(1, 2, 3)).any()
    assert np.array_equal(generate(config, 10, 3).images, generate(config, 260, 3).images[:10])


def _orientation(image: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> float:
    """The direction of strongest change, in degrees modulo 180."""
    down, across = np.gradient(image)
    angle = np.arctan2(2 * (down * across).sum(), (across**2 - down**2).sum()) / 2
    return float(np.degrees(angle)) % 180


def test_the_class_is_the_difference_of_orientations() -> None:
    """Measured from the pixels, without noise, for every image."""
    config = PairsConfig(noise=0.0, orientations=4)
    split = generate(config, 200, 0)
    step = 180 / config.orientations
    right = 0
    for image, label in zip(split.images.astype(float), split.labels, strict=True):
        turn = _orientation(image[..., RED]) - _orientation(image[..., BLUE])
        right += round(turn / step) % config.orientations == label
        assert (image[..., GREEN] == 128).all()
    assert right == 200


def test_gratings_lie_in_opposite_quadrants() -> None:
    """Red's quadrant and blue's share neither rows nor columns, and every quadrant occurs."""
    split = generate(PairsConfig(noise=0.0), 300, 0)
    seen = set()
    for image in split.images.astype(int):
        quadrants = []
        for channel in (RED, BLUE):
            rows, columns = np.nonzero(image[..., channel] != 128)
            assert rows.max() // 16 == rows.min() // 16
            assert columns.max() // 16 == columns.min() // 16
            quadrants.append((rows[0] // 16, columns[0] // 16))
        assert quadrants[0][0] != quadrants[1][0]
        assert quadrants[0][1] != quadrants[1][1]
        seen.add(quadrants[0])
    assert len(seen) == 4


def test_options_do_what_they_say() -> None:
    """Noise has its deviation, distractors are green, and distances are kept."""
    noisy = generate(PairsConfig(amplitude=0.0, noise=0.5), 100, 0).images
    assert abs(noisy.std() - 20) < 0.1
    assert abs(noisy.mean() - 128) < 0.1
    green = generate(PairsConfig(noise=0.0, distractors=2), 50, 0).images[..., GREEN]
    assert ((green != 128).reshape(50, 2, 16, 2, 16).any(axis=(2, 4)).sum(axis=(1, 2)) == 2).all()
    apart = generate(PairsConfig(noise=0.0, distance=10, window=50.0), 100, 0).images.astype(int)
    for image in apart:
        middles = []
        for channel in (RED, BLUE):
            rows, columns = np.nonzero(image[..., channel] != 128)
            middles.append((rows.min() + rows.max(), columns.min() + columns.max()))
        # Twice the distance; the last line of a grating may happen to be grey.
        assert abs(abs(middles[0][0] - middles[1][0]) - 20) <= 2
        assert abs(abs(middles[0][1] - middles[1][1]) - 20) <= 2


def test_one_grating_says_nothing_of_the_class() -> None:
    """Given the orientation of the red grating alone, all classes are as likely."""
    split = generate(PairsConfig(noise=0.0), 4000, 0)
    red = [round(_orientation(image[..., RED]) / 45) % 4 for image in split.images.astype(float)]
    table = np.zeros((4, 4))
    np.add.at(table, (np.array(red), split.labels), 1)
    # 250 in each cell, give or take 15 by chance.
    assert abs(table - 250).max() < 75


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"patch": 17}, "a patch of 17 does not fit into a quadrant of 16"),
        ({"orientations": 1}, "orientations=1"),
        ({"distractors": 3}, "distractors=3"),
        ({"distance": 3}, "a distance of 3 is not in 9 .side by side. to 23"),
        ({"noise": -1.0}, "noise=-1.0"),
        ({"noise": float("nan")}, "noise=nan"),
        ({"train_images": 0}, "train_images=0"),
    ],
)
def test_senseless_options_are_refused(options: dict[str, float], said: str) -> None:
    """Each is named with what would work."""
    with pytest.raises(UsageError, match=said):
        PairsConfig(**options)  # type: ignore[arg-type]


def test_pairs_load_by_name() -> None:
    """load_data gives both splits, names of classes, and a normalisation of one unit."""
    data = load_data("pairs", pairs=PairsConfig(train_images=50, test_images=20), seed=3)
    assert (len(data.train), len(data.test)) == (50, 20)
    assert data.class_names == class_names(PairsConfig())
    grey = (128 / 255 - data.mean[0]) / data.std[0]
    assert grey == 0
    assert abs(40 / 255 / data.std[0] - 1) < 1e-9
