"""Augmented batches on the device, in an order that depends on seed and epoch alone.

Every batch's random numbers come from a generator of their own, seeded by (seed, epoch, batch). So
the state of the data is three numbers: a run that stopped in the middle of an epoch resumes with
the batch it would have had, and ranks, each taking its part of every batch, see together exactly
what one process would.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from scalednl.errors import UsageError
from scalednl.lab.data.augment import Crop, Crops, Normaliser
from scalednl.lab.data.splits import ImageData, Split
from scalednl.lab.heartbeat import beat
from scalednl.lab.seeds import derive_seed

SPARE = 3
"""Images are kept on a GPU if this many times their bytes are free there"""


@dataclass(frozen=True)
class Batch:
    """One rank's part of a batch."""

    images: Float[Tensor, "mine 3 height width"]
    labels: Int[Tensor, "mine"]
    count: int
    """Images of the batch over all ranks"""
    first: int
    """Where this rank's part begins in the order of the epoch"""


class Batches:
    """A split as batches, epoch after epoch.

    The images stay on the device as bytes where they fit. On a GPU without the memory they stay on
    the host, and the next batch is copied, from pinned memory, while this one is being used.

    Args:
        data: gives the normalisation.
        split: the images.
        batch: images per batch, over all ranks. The last one of an epoch may be smaller; if it has
            fewer images than ranks, they join the batch before.
        crop: the augmentation.
        seed: seed of order and augmentation.
        shuffle: whether the order changes by epoch; otherwise it is that of the split.
        device: the device of the batches.
        rank: which part of every batch this process takes,
        world: and of how many.
    """

    def __init__(
        self,
        data: ImageData,
        split: Split,
        batch: int,
        crop: Crop,
        *,
        seed: int = 0,
        shuffle: bool = True,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if not 1 <= batch <= len(split):
            raise UsageError(f"the batch must be in 1 to {len(split)}, the images, got {batch}")
        if not 0 <= rank < world:
            raise UsageError(f"the rank must be in 0 to {world - 1}, got {rank}")
        if batch < world:
            raise UsageError(f"a batch of {batch} cannot be shared by {world} processes")
        self.batch, self.seed, self.shuffle = batch, seed, shuffle
        self.device, self._rank, self._world = torch.device(device), rank, world
        self._crop = crop
        self._normalise = Normaliser(data.mean, data.std, self.device)
        images, labels = torch.from_numpy(split.images), torch.from_numpy(split.labels)
        self._streams = not fits_on(self.device, images)
        if not self._streams:
            images, labels = images.to(self.device), labels.to(self.device)
        self._images, self._labels = images, labels
        self._bounds = _bounds(len(split), batch, world)

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self._bounds)

    @property
    def images(self) -> int:
        """Images per epoch, over all ranks."""
        return len(self._labels)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from the `start`-th on."""
        order = self.order(epoch)
        waiting: tuple[Tensor, Tensor, Crops, int, int] | None = None
        for index in range(start, len(self)):
            beat()
            raw, labels, crops, count, first = waiting or self._fetch(order, epoch, index)
            # Fetched before the current batch is used, so that the copy overlaps with the work.
            last = index + 1 == len(self) or not self._streams
            waiting = None if last else self._fetch(order, epoch, index + 1)
            yield Batch(self._normalise(self._crop.cut(raw, crops)), labels, count, first)

    def order(self, epoch: int) -> Int[Tensor, "images"]:
        """Indices of the images of an epoch, over all ranks."""
        if not self.shuffle:
            return torch.arange(len(self._labels))
        generator = Generator().manual_seed(derive_seed(self.seed, "order", epoch))
        return torch.randperm(len(self._labels), generator=generator)

    def _fetch(
        self, order: Tensor, epoch: int, index: int
    ) -> tuple[Tensor, Tensor, Crops, int, int]:
        first, last = self._bounds[index]
        count = last - first
        mine = slice(count * self._rank // self._world, count * (self._rank + 1) // self._world)
        # Numbers for the complete batch, whichever rank takes which part of it.
        generator = Generator().manual_seed(derive_seed(self.seed, "augment", epoch, index))
        crops = self._crop.draw(count, self._images.shape[1], generator).part(mine)
        chosen = order[first:last][mine].to(self._labels.device)
        images, labels = (self._rows(source, chosen) for source in (self._images, self._labels))
        return images, labels, crops.to(self.device), count, first + mine.start

    def _rows(self, source: Tensor, chosen: Tensor) -> Tensor:
        """Some rows on the device; a copy from pinned memory overlaps with work."""
        if not self._streams or self.device.type != "cuda":
            return source.index_select(0, chosen).to(self.device)
        rows = torch.empty((len(chosen), *source.shape[1:]), dtype=source.dtype, pin_memory=True)
        return torch.index_select(source, 0, chosen, out=rows).to(self.device, non_blocking=True)


def fits_on(device: torch.device, images: Tensor) -> bool:
    """Whether all images can stay on the device; a CPU always has them already."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return free >= SPARE * images.nbytes


def _bounds(images: int, batch: int, world: int) -> Sequence[tuple[int, int]]:
    """First and last image of every batch; a rest too small to share joins the batch before."""
    firsts = list(range(0, images, batch))
    if len(firsts) > 1 and images - firsts[-1] < world:
        firsts.pop()
    return list(zip(firsts, [*firsts[1:], images], strict=True))
