"""`recall` is the same everywhere, is what it claims to be, and neither side predicts the class."""

import hashlib
import itertools
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest

from scalednl.config import RecallConfig
from scalednl.config.generated import COLOURS
from scalednl.data import load_data
from scalednl.data.recall import CHANNELS, generate, make_recall, orientations
from scalednl.errors import UsageError
from tests.data.gratings import orientation

# Whole-number arithmetic: these hold on every platform.
OTHER = RecallConfig(height=44, width=30, jitter=0, keys=6, values=4, noise=0.5)
GOLDEN = {RecallConfig(): "", OTHER: ""}
COLOUR_OF = {tuple(sorted(channels)): colour for colour, channels in CHANNELS.items()}


@pytest.mark.parametrize("config", GOLDEN, ids=["default", "options"])
def test_images_are_the_same_everywhere(config: RecallConfig) -> None:
    """The first images of seed 7 have a known hash."""
    split = generate(config, 20, 7)
    content = split.images.tobytes() + split.labels.astype("<i8").tobytes()
    assert hashlib.sha256(content).hexdigest()[:16] == GOLDEN[config]


def test_splits_share_nothing() -> None:
    """The test split and other seeds have other images."""
    config = RecallConfig(train_images=100, test_images=100)
    train, test = make_recall(config, seed=1)
    other, _ = make_recall(config, seed=2)
    for split in (test, other):
        assert not (train.images == split.images).all(axis=(1, 2, 3)).any()


def _read_side(
    half: npt.NDArray[np.float64], keys: int, values: int
) -> tuple[list[str], dict[str, int]]:
    """Colours from top to bottom, and the orientation of each."""
    order, found = [], {}
    for band in np.split(half, keys):
        channels = tuple(c for c in range(3) if (band[..., c] != 128).any())
        colour = COLOUR_OF[channels]
        order.append(colour)
        found[colour] = round(orientation(band[..., channels[0]]) * values / 180) % values
    return order, found


@pytest.mark.parametrize(("keys", "values"), [(2, 2), (3, 2), (4, 4), (6, 3)])
def test_one_colour_agrees(keys: int, values: int) -> None:
    """Read from the pixels: each side has every colour once, and only the class's agrees."""
    config = RecallConfig(height=12 * keys, keys=keys, values=values, noise=0.0)
    split = generate(config, 120, 0)
    orders = set()
    for image, wanted in zip(split.images.astype(float), split.labels, strict=True):
        (order, left), (other, right) = (
            _read_side(half, keys, values) for half in np.split(image, 2, axis=1)
        )
        assert set(left) == set(right) == set(COLOURS[:keys])
        assert [c for c in left if left[c] == right[c]] == [COLOURS[wanted]]
        orders.add((tuple(order), tuple(other)))
    assert len(orders) > 3


def test_sides_keep_their_distance() -> None:
    """`gap` columns between the sides stay free, and no more."""
    config = RecallConfig(noise=0.0)
    drawn = (generate(config, 500, 0).images != 128).any((0, 1, 3))
    assert np.flatnonzero(~drawn).tolist() == list(range(8, 32))
    assert config.gap == 24


@pytest.mark.parametrize(("keys", "values"), [(2, 2), (3, 2), (3, 3), (4, 2)])
def test_one_side_does_not_predict_the_class(keys: int, values: int) -> None:
    """Over all choices of the generator, all classes are equally frequent given either side."""
    lefts = itertools.product(range(values), repeat=keys)
    turns = itertools.product(range(1, values), repeat=keys)
    choices = list(itertools.product(lefts, turns, range(keys)))
    left, turn = (np.array([choice[i] for choice in choices]) for i in (0, 1))
    label = np.array([choice[2] for choice in choices])
    right = orientations(left, turn, label, values)
    agree = left == right
    assert (agree.sum(1) == 1).all()
    assert (agree.argmax(1) == label).all()
    for side in (left, right):
        counts = Counter((tuple(row), c) for row, c in zip(side.tolist(), label, strict=True))
        assert len(counts) == values**keys * keys
        assert len(set(counts.values())) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"keys": 1}, "keys=1 is not in 2 to 6"),
        ({"keys": 4}, "height must be at least keys . patch = 28"),
        ({"values": 1}, "values=1"),
        ({"jitter": 14}, "width=40 has no room"),
        ({"test_images": 0}, "test_images=0"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, int], said: str) -> None:
    """Each is named with what would work."""
    with pytest.raises(UsageError, match=said):
        RecallConfig(**options)


def test_recall_loads_by_name() -> None:
    """load_data gives both splits and the colours as names of classes."""
    config = RecallConfig(train_images=50, test_images=20)
    data = load_data("recall", recall=config, seed=3)
    assert (len(data.train), len(data.test)) == (50, 20)
    assert data.class_names == ("red", "blue", "green")
    assert np.array_equal(data.test.images, make_recall(config, 3)[1].images)
