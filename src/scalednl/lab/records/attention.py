"""The record of `scalednl attention`: scores, pictures, and enough to compute any row. No torch.

attention/attention.json   all numbers, and for some images theta and phi in few bits
attention/*.png, *.svg     figures; bare maps, one pixel per entry
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np

from scalednl.errors import CommandError
from scalednl.lab.records.origin import Origin
from scalednl.lab.records.run import Count, Percent, RunFolder
from scalednl.lab.records.typed_json import read_record, write_record
from scalednl.lab.stats import Summary

SCHEMA = 2
"""1 had other scores under some of the same names, and errors on the scored images alone"""
FILE = "attention.json"
LARGEST_FILE = 8 << 20
"""Bytes; with photos and their vectors a record has about 3 MB"""
MOST = 256
"""Blocks, scores or ablations of one record; images of an explorer"""
PNG = b"\x89PNG\r\n\x1a\n"
Positive = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
Number = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
Sizes = Annotated[tuple[Positive, ...], msgspec.Meta(min_length=1, max_length=3)]
Name = Annotated[str, msgspec.Meta(max_length=200)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
FEW = msgspec.Meta(max_length=MOST)


@dataclass(frozen=True)
class BlockRecord:
    """One block: its options, and its scores after training and before."""

    name: str
    attention: str
    view: str
    heads: Positive
    channels: Positive
    embed_channels: Positive
    query_size: Sizes
    key_size: Sizes
    scores: Annotated[dict[Name, Summary], FEW]
    """Over images, of the mean over heads"""
    head_scores: Annotated[dict[Name, tuple[Number, ...]], FEW]
    """The mean over images of every head"""
    untrained: Annotated[dict[Name, Summary], FEW]

    def __post_init__(self) -> None:
        if self.untrained.keys() != self.scores.keys():
            raise ValueError("scores and untrained have different names")
        for name, summary in [*self.scores.items(), *self.untrained.items()]:
            values = (summary.mean, summary.sd, summary.low, summary.high)
            if any(value is not None and abs(value) > 1e15 for value in values):
                raise ValueError(f"{name} has a number above 1e15")
            if (summary.low is None) != (summary.high is None):
                raise ValueError(f"{name} has half an interval")
        for name, heads in self.head_scores.items():
            if len(heads) != self.heads:
                raise ValueError(f"{name} has {len(heads)} numbers for {self.heads} heads")


@dataclass(frozen=True)
class UntrainedStart:
    """The network that `untrained` scores belong to."""

    seed: int
    start: str
    """In words"""


@dataclass(frozen=True)
class Ablations:
    """Test error in percent with the maps of all blocks replaced."""

    images: Count
    error_pct: Annotated[dict[Name, Percent], FEW]


@dataclass(frozen=True)
class MapPicture:
    """The picture of a bare map, in the folder of the record."""

    file: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,200}\.png\Z")]
    image: Count
    block: Count
    head: Count
    colours: str
    low: Number
    high: Number


@dataclass(frozen=True)
class Vectors:
    """Theta and phi of one block and image: whole numbers, times a scale for every vector.

    Row i of head h is factor[h] theta_i . phi_j over all j, or the softmax of that.
    """

    bits: Literal[8, 16]
    """The size of a number; they are signed and little-endian"""
    theta: bytes
    theta_scale: bytes
    """float32, little-endian"""
    phi: bytes
    phi_scale: bytes
    width: Positive
    """Numbers of a vector"""
    factor: tuple[Number, ...]
    """One per head"""
    row_error: Number
    """Largest error of a row, relative to its largest entry"""
    query_size: Sizes | None = None
    """The maps' size, for a photo where it is not the block's"""
    key_size: Sizes | None = None

    def check(self, block: BlockRecord) -> None:
        """Raise ValueError unless the vectors belong to a block of this shape."""
        if len(self.factor) != block.heads:
            raise ValueError(f"{len(self.factor)} factors for {block.heads} heads")
        for name, numbers, scales, size in (
            ("theta", self.theta, self.theta_scale, self.query_size or block.query_size),
            ("phi", self.phi, self.phi_scale, self.key_size or block.key_size),
        ):
            count = block.heads * math.prod(size)
            wanted = count * self.width * self.bits // 8
            if (len(numbers), len(scales)) != (wanted, 4 * count):
                raise ValueError(f"{name} has {len(numbers)} bytes, its scales {len(scales)}")
            if not np.isfinite(np.frombuffer(scales, "<f4")).all():
                raise ValueError(f"{name}_scale has numbers that are not finite")


@dataclass(frozen=True)
class ExplorerImage:
    """One image of the explorer, with the vectors of every block."""

    index: int
    label: str | None
    predicted: str | None
    height: Positive
    width: Positive
    png: bytes
    blocks: tuple[Vectors, ...]
    title: str | None = None
    """The name of a photo"""


@dataclass(frozen=True)
class ExplorerImages:
    """The images of the explorer."""

    images: Annotated[tuple[ExplorerImage, ...], FEW]
    left_out: Count = 0
    """Images that would have made the record too large"""


@dataclass(frozen=True)
class ClassProbability:
    """A class, and how probable the network takes it to be."""

    name: Name
    probability: Share


@dataclass(frozen=True)
class PhotoRecord:
    """A photo: what was done to it, and what the network takes it for."""

    file: str
    height: Positive
    width: Positive
    """The file's, upright"""
    seen_height: Positive
    seen_width: Positive
    """The width that the network received"""
    notes: tuple[str, ...]
    """What was done to it, in words"""
    classes: Annotated[tuple[ClassProbability, ...], FEW]
    """The most probable ones, the first one first"""


@dataclass(frozen=True, kw_only=True)
class AttentionRecord:
    """attention.json."""

    schema: int = SCHEMA
    source: str
    recipe: str | None
    seed: int | None
    data: str | None
    """None for photos"""
    model: str
    position: bool | None
    origin: Origin
    images_scored: Count
    blocks: Annotated[tuple[BlockRecord, ...], msgspec.Meta(min_length=1, max_length=MOST)]
    untrained: UntrainedStart
    ablations: Ablations | None
    maps: tuple[MapPicture, ...]
    explorer: ExplorerImages
    photos: Annotated[tuple[PhotoRecord, ...], FEW] = ()

    def __post_init__(self) -> None:
        for picture in self.maps:
            if picture.block >= len(self.blocks):
                raise ValueError(f"a map is of block {picture.block}, which does not exist")
            if picture.head >= self.blocks[picture.block].heads:
                raise ValueError(f"a map is of head {picture.head}, which does not exist")
        for image in self.explorer.images:
            if not image.png.startswith(PNG):
                raise ValueError("an image of the explorer is not a PNG picture")
            if len(image.blocks) != len(self.blocks):
                raise ValueError(f"an image has {len(image.blocks)} blocks, not {len(self.blocks)}")
            for vectors, block in zip(image.blocks, self.blocks, strict=True):
                vectors.check(block)


def write_attention(folder: Path, record: AttentionRecord) -> None:
    """Write a record beside its pictures."""
    write_record(folder / FILE, record)


def read_attention(folder: Path) -> AttentionRecord | None:
    """The record in the folder `attention` of a run; None if there is none."""
    path = folder / FILE
    try:
        return read_record(path, AttentionRecord, LARGEST_FILE, schema=SCHEMA, top=folder.parent)
    except FileNotFoundError:
        return None


def is_current(run: Path, images: int) -> bool:
    """Whether the attention of a run is recorded since it was trained, on so many images.

    A smaller test set must have been scored completely.
    """
    record, weights = run / "attention" / FILE, run / "weights.safetensors"
    try:
        found = read_attention(record.parent)
        newer = not weights.exists() or record.stat().st_mtime >= weights.stat().st_mtime
        if found is None or not newer:
            return False
        return found.images_scored >= images or found.images_scored == _test_images(run)
    except (CommandError, OSError):
        return False


def _test_images(run: Path) -> int | None:
    """The size of the test set of a run's data; None if its config does not show it."""
    experiment, setup = RunFolder(run).read_config()
    if experiment.generated is not None:
        return experiment.generated.test_images
    return setup.test_images if experiment.test_limit is None else None


def without_pictures(record: AttentionRecord) -> AttentionRecord:
    """A record's numbers alone; its images count as left out."""
    explorer = record.explorer
    left_out = len(explorer.images) + explorer.left_out
    return replace(record, maps=(), explorer=ExplorerImages((), left_out))
