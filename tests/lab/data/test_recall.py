"""`recall` is the same everywhere, is what it claims to be, and neither side predicts the class."""

import hashlib
import itertools
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from scalednl.errors import UsageError
from scalednl.lab.config import RecallConfig
from scalednl.lab.config.generated import COLOURS
from scalednl.lab.data import load_data
from scalednl.lab.data.gratings import generate, make_splits
from scalednl.lab.data.recall import CHANNELS, assign, draw, orientations
from tests.lab.data.gratings import orientation

# Whole-number arithmetic: these hold on every platform.
OTHER = RecallConfig(height=25, width=30, jitter=0, colours=5, per_side=3, orientations=6)
GOLDEN = {RecallConfig(): "d3171a30cd5451a2", OTHER: "042bdf472705e0df"}
COLOUR_OF = {tuple(sorted(channels)): colour for colour, channels in CHANNELS.items()}


@pytest.mark.parametrize("config", GOLDEN, ids=["default", "options"])
def test_images_are_the_same_everywhere(config: RecallConfig) -> None:
    """The first images of seed 7 have a known hash."""
    split = generate(config, draw, 20, 7)
    content = split.images.tobytes() + split.labels.astype("<i8").tobytes()
    assert hashlib.sha256(content).hexdigest()[:16] == GOLDEN[config]


def _read_side(half: npt.NDArray[np.float64], config: RecallConfig) -> dict[str, int]:
    """Colours from top to bottom with their orientations."""
    found = {}
    for band in np.split(half, config.per_side):
        channels = tuple(c for c in range(3) if (band[..., c] != 128).any())
        turn = orientation(band[..., channels[0]]) * config.orientations / 180
        found[COLOUR_OF[channels]] = round(turn) % config.orientations
    return found


@pytest.mark.parametrize(("colours", "per_side", "k"), [(1, 1, 4), (3, 2, 4), (6, 3, 3), (4, 2, 2)])
def test_the_class_is_the_turn_of_the_shared_colour(colours: int, per_side: int, k: int) -> None:
    """Read from the pixels, one colour is on both sides, and the class is its difference."""
    options: dict[str, Any] = {"colours": colours, "per_side": per_side, "orientations": k}
    config = RecallConfig(height=12 * per_side, noise=0.0, **options)
    split = generate(config, draw, 150, 0)
    seen = Counter[str]()
    for image, wanted in zip(split.images.astype(float), split.labels, strict=True):
        left, right = (_read_side(half, config) for half in np.split(image, 2, axis=1))
        assert len(left) == len(right) == per_side
        (shared,) = left.keys() & right.keys()
        assert (left[shared] - right[shared]) % k == wanted
        seen.update([shared, *left])
    assert set(seen) == set(COLOURS[:colours])


def test_the_shared_colour_stands_in_any_row() -> None:
    """Orders of the two sides are independent, so that no pair of rows is a shortcut."""
    config = RecallConfig(height=24, colours=3, noise=0.0)
    places = Counter[tuple[int, int]]()
    for image in generate(config, draw, 400, 0).images.astype(float):
        left, right = (_read_side(half, config) for half in np.split(image, 2, axis=1))
        (shared,) = left.keys() & right.keys()
        places[list(left).index(shared), list(right).index(shared)] += 1
    # 100 each, with a standard deviation of 9.
    assert sorted(places) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert min(places.values()) > 70


def test_sides_keep_their_distance() -> None:
    """`gap` columns between the sides stay free, and no more."""
    config = RecallConfig(noise=0.0)
    drawn = (generate(config, draw, 500, 0).images != 128).any((0, 1, 3))
    assert np.flatnonzero(~drawn).tolist() == list(range(8, 32))
    assert config.gap == 24


@pytest.mark.parametrize(("colours", "per_side", "k"), [(3, 2, 2), (3, 2, 3), (4, 2, 2), (5, 3, 2)])
def test_one_side_does_not_predict_the_class(colours: int, per_side: int, k: int) -> None:
    """Over all choices of the generator, all classes are equally frequent given either side."""
    numbers = itertools.product(range(k), repeat=2 * per_side)
    choices = list(itertools.product(itertools.permutations(range(colours)), numbers))
    order, drawn = (np.array([choice[i] for choice in choices]) for i in (0, 1))
    label = drawn[:, 0]
    turned = orientations(drawn[:, 1], drawn[:, 2:], label, k)
    sides = assign(order, per_side)
    assert ((turned[0][:, 0] - turned[1][:, 0]) % k == label).all()
    for colour, turn in zip(sides, turned, strict=True):
        counts = Counter(
            (tuple(sorted(zip(c, t, strict=True))), y)
            for c, t, y in zip(colour.tolist(), turn.tolist(), label.tolist(), strict=True)
        )
        by_side: dict[object, set[int]] = {}
        for (side, _), count in counts.items():
            by_side.setdefault(side, set()).add(count)
        assert len(counts) == k * len(by_side)
        assert all(len(found) == 1 for found in by_side.values())


def test_recall_loads_by_name() -> None:
    """load_data gives both splits and the turns as names of classes."""
    config = RecallConfig(train_images=50, test_images=20)
    data = load_data("recall", options=config, seed=3)
    assert (len(data.train), len(data.test)) == (50, 20)
    assert data.class_names == ("turned by 0 degrees", "turned by 90 degrees")
    assert np.array_equal(data.test.images, make_splits(config, draw, 3)[1].images)


def test_options_of_another_data_set_are_refused() -> None:
    """Options of `recall` are not for `pairs`, nor for data sets that are not generated."""
    for name in ("pairs", "cifar10"):
        with pytest.raises(UsageError, match=f"{name} does not take these options: RecallConfig"):
            load_data(name, options=RecallConfig())
