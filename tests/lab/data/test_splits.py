"""Subsets keep the classes in their proportions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalednl.errors import UsageError
from scalednl.lab.data.splits import ImageData, Split, stratified
from tests.lab.data.builders import random_images


def _data(count: int) -> ImageData:
    split = Split(random_images(count, 8), np.arange(count) % 2)
    return ImageData("two classes", split, split, ["a", "b"], (0.5,) * 3, (0.25,) * 3)


@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    share=st.floats(0, 1),
    seed=st.integers(0, 5),
)
@settings(deadline=None)
def test_subsets_keep_the_proportions(labels: list[int], share: float, seed: int) -> None:
    """A class has its share of the subset to within one image, and no image comes twice."""
    values = np.array(labels)
    limit = max(1, round(share * len(values)))
    chosen = stratified(values, limit, seed)
    assert len(set(chosen.tolist())) == limit
    for label in set(labels):
        exact = limit * labels.count(label) / len(labels)
        assert abs((values[chosen] == label).sum() - exact) < 1


def test_impossible_limits_are_refused() -> None:
    """0 images, and more than there are."""
    for limit in (0, 11):
        with pytest.raises(
            UsageError, match=f"the limit must be in 1 to 10, the images, got {limit}"
        ):
            _data(10).train.subset(limit)


def test_limited_data_has_other_training_images_by_seed_and_the_same_test_images() -> None:
    """`limited` draws training images by its seed, and test images without it."""
    one, two = (_data(40).limited(10, 10, seed) for seed in (1, 2))
    assert (len(one.train), len(one.test)) == (10, 10)
    assert not np.array_equal(one.train.images, two.train.images)
    assert np.array_equal(one.test.images, two.test.images)
    assert _data(40).limited(None).train.images.shape == (40, 8, 8, 3)


def test_subsets_come_from_the_seed() -> None:
    """Training images of two seeds differ, of one seed they do not; test images never do."""
    labels = np.arange(200) % 5
    images = np.arange(200, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    split = Split(images, labels)
    data = ImageData("x", split, split, list("abcde"), (0.5,) * 3, (0.25,) * 3)
    one, again, other = (data.limited(50, 20, seed) for seed in (1, 1, 2))
    chosen = [set(part.train.images[:, 0, 0, 0].tolist()) for part in (one, again, other)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert len(chosen[0] & chosen[2]) < 30
    assert np.bincount(other.train.labels).tolist() == [10] * 5
    assert np.array_equal(one.test.images, other.test.images)
