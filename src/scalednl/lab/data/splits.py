"""Images and labels in memory, before any augmentation. Imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scalednl.errors import UsageError
from scalednl.lab.seeds import derive_seed

Bytes = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Images as uint8 (count, height, width, 3), and their labels."""

    images: Bytes
    labels: Labels

    def __post_init__(self) -> None:
        assert self.images.ndim == 4, f"images of shape {self.images.shape}"
        assert self.images.shape[-1] == 3, f"images of shape {self.images.shape}"
        assert len(self.images) == len(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: Labels) -> "Split":
        """These images, in this order."""
        return Split(self.images[indices], self.labels[indices])

    def subset(self, limit: int, seed: int = 0) -> "Split":
        """`limit` images with the classes in their proportions, the same for the same seed."""
        if not 1 <= limit <= len(self):
            raise UsageError(f"the limit must be in 1 to {len(self)}, the images, got {limit}")
        return self.take(stratified(self.labels, limit, seed))


@dataclass(frozen=True)
class ImageData:
    """A data set ready to train on."""

    name: str
    train: Split
    test: Split
    class_names: Sequence[str]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def limited(self, train: int | None, test: int | None = None, seed: int = 0) -> "ImageData":
        """The same with fewer images, stratified; None keeps all.

        `seed` draws the training images. The test images are the same for every seed.
        """
        return replace(
            self,
            train=self.train if train is None else self.train.subset(train, seed),
            test=self.test if test is None else self.test.subset(test),
        )


def stratified(labels: Labels, limit: int, seed: int) -> Labels:
    """Sorted indices of `limit` images, each class in proportion (largest remainders first)."""
    classes, counts = np.unique(labels, return_counts=True)
    shares = counts * limit / len(labels)
    taken = np.floor(shares).astype(np.int64)
    # The classes that lost most to rounding down get the remaining images, ties by label.
    order = np.lexsort((classes, -(shares - taken)))
    taken[order[: limit - int(taken.sum())]] += 1
    chosen = []
    for label, count in zip(classes, taken, strict=True):
        members = np.flatnonzero(labels == label)
        draw = np.random.Generator(np.random.PCG64(derive_seed(seed, "subset", int(label))))
        chosen.append(draw.permutation(members)[:count])
    return np.sort(np.concatenate(chosen))
