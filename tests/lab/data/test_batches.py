"""Batches: every image once an epoch, the same numbers again, ranks that add up to one process."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scalednl.errors import UsageError
from scalednl.lab.data import batches
from scalednl.lab.data.augment import CentreCrop, PaddedCrop, ResizedCrop
from scalednl.lab.data.batches import Batch, Batches
from scalednl.lab.data.splits import ImageData, Split

MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)


def _data(count: int, side: int = 8) -> ImageData:
    """Images whose label is their number, so that batches tell which they hold."""
    images = np.random.default_rng(0).integers(0, 256, (count, side, side, 3), dtype=np.uint8)
    split = Split(images, np.arange(count))
    return ImageData("numbers", split, split, [str(n) for n in range(count)], MEAN, STD)


def _labels(batches: Iterator[Batch]) -> list[int]:
    return [label for batch in batches for label in batch.labels.tolist()]


SIZES = st.integers(1, 60)


@given(count=SIZES, batch=SIZES, world=st.integers(1, 5), epoch=st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_shards_are_disjoint_and_complete(count: int, batch: int, world: int, epoch: int) -> None:
    """Whatever the sizes, all ranks together see every image exactly once, in step."""
    batch = min(batch, count)
    assume(batch >= world)
    data = _data(count)
    ranks = [
        list(Batches(data, data.train, batch, PaddedCrop(), rank=r, world=world).epoch(epoch))
        for r in range(world)
    ]
    assert len({len(batches) for batches in ranks}) == 1
    seen = [label for batches in ranks for label in _labels(iter(batches))]
    assert sorted(seen) == list(range(count))
    for together in zip(*ranks, strict=True):
        assert all(len(mine.labels) >= 1 for mine in together)
        assert {mine.count for mine in together} == {sum(len(mine.labels) for mine in together)}


def test_ranks_see_together_what_one_process_sees() -> None:
    """Pixels and labels of two ranks, joined, are the single process's batch, bit for bit."""
    data = _data(37, side=16)
    alone = Batches(data, data.train, 10, PaddedCrop(), seed=5)
    first, second = (
        Batches(data, data.train, 10, PaddedCrop(), seed=5, rank=rank, world=2) for rank in (0, 1)
    )
    for alone_batch, one, two in zip(alone.epoch(3), first.epoch(3), second.epoch(3), strict=True):
        assert torch.equal(torch.cat([one.images, two.images]), alone_batch.images)
        assert torch.equal(torch.cat([one.labels, two.labels]), alone_batch.labels)


def test_an_epoch_resumes_from_any_batch() -> None:
    """Starting in the middle gives the rest of the epoch, bit for bit."""
    data = _data(50, side=16)
    complete = list(Batches(data, data.train, 8, ResizedCrop(8), seed=1).epoch(2))
    for start in (0, 3, 6, 7):
        rest = list(Batches(data, data.train, 8, ResizedCrop(8), seed=1).epoch(2, start))
        assert len(rest) == len(complete) - start
        for mine, right in zip(rest, complete[start:], strict=True):
            assert torch.equal(mine.images, right.images)
            assert torch.equal(mine.labels, right.labels)


def test_order_depends_on_seed_and_epoch_alone() -> None:
    """Other epochs and other seeds give other orders; the global generator none."""
    data = _data(50)
    usual = Batches(data, data.train, 8, PaddedCrop(), seed=1)
    first = usual.order(0)
    torch.manual_seed(99)
    assert torch.equal(usual.order(0), first)
    assert not torch.equal(usual.order(1), first)
    assert not torch.equal(Batches(data, data.train, 8, PaddedCrop(), seed=2).order(0), first)
    still = Batches(data, data.test, 8, CentreCrop(8), shuffle=False)
    assert still.order(1).tolist() == list(range(50))


def test_streaming_gives_the_same_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images that stay on the host give the batches that images on the device give."""
    data = _data(30, side=16)
    usual = Batches(data, data.train, 8, PaddedCrop())
    monkeypatch.setattr(batches, "fits_on", lambda *_: False)
    other = Batches(data, data.train, 8, PaddedCrop())
    assert other._streams and not usual._streams  # noqa: PT018
    for one, two in zip(usual.epoch(1), other.epoch(1), strict=True):
        assert torch.equal(one.images, two.images)
        assert torch.equal(one.labels, two.labels)


def test_impossible_batches_are_refused() -> None:
    """A batch larger than the set, and one that cannot be shared."""
    data = _data(10)
    with pytest.raises(UsageError, match="the batch must be in 1 to 10, the images, got 11"):
        Batches(data, data.train, 11, PaddedCrop())
    with pytest.raises(UsageError, match="a batch of 2 cannot be shared by 3 processes"):
        Batches(data, data.train, 2, PaddedCrop(), world=3)
    with pytest.raises(UsageError, match="the rank must be in 0 to 1, got 3"):
        Batches(data, data.train, 2, PaddedCrop(), rank=3, world=2)
    with pytest.raises(UsageError, match="a crop of 56 pixels does not fit into images of 8"):
        next(Batches(data, data.train, 2, CentreCrop(56)).epoch(0))
