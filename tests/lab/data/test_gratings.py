"""What both generated data sets share: independent splits, and noise of the right size."""

from typing import Any

import numpy as np
import pytest

from scalednl.lab.config import PairsConfig, RecallConfig
from scalednl.lab.data import pairs, recall
from scalednl.lab.data.gratings import GREEN, generate, make_splits

BOTH = [
    (PairsConfig(train_images=300, test_images=300), pairs.draw),
    (RecallConfig(train_images=300, test_images=300), recall.draw),
]


@pytest.mark.parametrize(("config", "draw"), BOTH, ids=["pairs", "recall"])
def test_seeds_and_splits_share_nothing(config: Any, draw: Any) -> None:
    """Other seeds and the test split have other images; a longer list begins with the shorter."""
    train, test = make_splits(config, draw, seed=1)
    other, same = make_splits(config, draw, seed=2)
    for split in (test, other):
        assert not (train.images == split.images).all(axis=(1, 2, 3)).any()
    assert np.array_equal(test.images, same.images)
    short, long = (generate(config, draw, count, 3).images for count in (10, 260))
    assert np.array_equal(short, long[:10])


def test_noise_has_its_deviation() -> None:
    """In a channel without gratings it is noise * 40 grey levels around 128."""
    noisy = generate(PairsConfig(noise=0.5), pairs.draw, 300, 0).images[..., GREEN]
    assert abs(noisy.std() - 20) < 0.1
    assert abs(noisy.mean() - 128) < 0.1
