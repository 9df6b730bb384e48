"""Images of a folder, decoded once: afterwards they are mapped from disk, batch by batch.

    ROOT/folders/NAME-KEY/dataset.json   which folder and options, what was found there
    ROOT/folders/NAME-KEY/arrays/        every image as side x side x 3 bytes

The key is of the path and of the options that decide the pixels. A folder appears under its name by
one rename; it is decoded again when an image is added, removed or changed.
"""

import hashlib
import os
import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scalednl.errors import CommandError
from scalednl.files import read_bytes
from scalednl.lab.config import Experiment, FolderConfig
from scalednl.lab.config.data_sets import Triple
from scalednl.lab.config.folder import PREFIX, FolderFacts, folder_path, is_folder, short_name
from scalednl.lab.console import counted, notice, track
from scalednl.lab.data import store
from scalednl.lab.data.arrays import StaleError, open_arrays, save_rows, write_header
from scalednl.lab.data.data_set import Advance
from scalednl.lab.data.errors import DataError, writing_data
from scalednl.lab.data.image_file import read_square, without_warnings
from scalednl.lab.data.image_folder import NEEDED, ImageFile, Listing, list_images
from scalednl.lab.data.splits import Bytes, ImageData
from scalednl.lab.machine import cores
from scalednl.lab.records.typed_json import read_record, write_record

SCHEMA = 1
CHUNK = 256
CHUNK_BYTES = 32 * 2**20
"""Images decoded between two reports of progress: this many, or as many as have so many bytes"""
LARGEST_FILE = 256 * 2**20
NAMED = 3
"""Damaged images that a sentence names"""


@dataclass(frozen=True)
class FolderDescription:
    """What `dataset.json` of a decoded folder contains."""

    path: str
    storage: str
    """`FolderConfig.storage`"""
    stamp: str
    """`Listing.stamp`"""
    class_names: tuple[str, ...]
    found: FolderFacts
    schema: int = SCHEMA

    @property
    def source(self) -> dict[str, Any]:
        """What the arrays were made from."""
        return {"stamp": self.stamp, "storage": self.storage}


class DamagedError(DataError):
    """Images that cannot be read, each with the reason."""

    def __init__(self, folder: Path, images: int, problems: Sequence[tuple[str, str]]) -> None:
        self.problems = problems
        named = ", ".join(f"{name} ({reason})" for name, reason in problems[:NAMED])
        more = f" and {len(problems) - NAMED:,} more" if len(problems) > NAMED else ""
        data = shlex.quote(f"{PREFIX}{folder}")
        super().__init__(
            f"{len(problems):,} of {counted(images, 'image')} in {folder} cannot be read: "
            f"{named}{more}; remove or replace them (`scalednl data verify {data}` lists all)"
        )


def load_folder(
    data: str, options: FolderConfig | None = None, root: Path | None = None
) -> ImageData:
    """The images of `folder:PATH`, ready to train on.

    Raises if they are not the ones that the options say were found. Normalisation is by the mean
    and deviation in the options where these are known: those that a network was trained with.
    """
    options = options or FolderConfig()
    folder, place = folder_path(data), _place(data, options, root)
    listing = list_images(folder)
    description = _ready(listing, options, place)
    if options.found is not None:
        _check_same(folder, options.found, description.found)
    found = options.found or description.found
    try:
        splits = open_arrays(place, description.source)
    except StaleError:
        description = _decode_again(listing, options, place)
        splits = open_arrays(place, description.source)
    names = description.class_names
    return ImageData(data, splits["train"], splits["test"], names, found.mean, found.std)


def with_images(
    experiment: Experiment, root: Path | None = None, *, to_train: bool = True
) -> Experiment:
    """The experiment with what its folder of images contains, where that is not known yet.

    Images `to_train` on must be among them.
    """
    if not is_folder(experiment.data) or experiment.folder.found is not None:
        return experiment
    folder = folder_path(experiment.data)
    place = _place(experiment.data, experiment.folder, root)
    listing = list_images(folder)
    if to_train and not listing.train:
        raise DataError(f"{folder} has test images but no train/: {NEEDED}")
    found = _ready(listing, experiment.folder, place).found
    return replace(
        experiment,
        data=f"{PREFIX}{os.path.abspath(folder)}",
        folder=replace(experiment.folder, found=found),
    )


def verify_folder(data: str) -> tuple[Listing, list[tuple[str, str]]]:
    """Read every image of a folder; the names of those that cannot be read, with the reasons."""
    listing = list_images(folder_path(data))
    images = [*listing.train, *(listing.test or ())]
    decoder = _Decoder(listing.folder, FolderConfig())
    with track(f"Checking {listing.folder}", len(images)) as advance:
        for _ in decoder.chunks(images, advance):
            pass
    return listing, decoder.problems


def stored_folders(root: Path) -> Iterator[tuple[Path, FolderDescription | None]]:
    """The decoded folders of images below a folder of data sets; None where one is damaged."""
    for path in sorted((root / "folders").glob("[!.]*")):
        try:
            yield path, read_record(path / "dataset.json", FolderDescription, schema=SCHEMA)
        except (FileNotFoundError, CommandError):
            yield path, None


def is_current(description: FolderDescription) -> bool:
    """Whether a folder still has the images that were decoded."""
    try:
        return list_images(Path(description.path)).stamp == description.stamp
    except CommandError:
        return False


def _place(data: str, options: FolderConfig, root: Path | None) -> Path:
    """Where the arrays of a folder and its options are stored."""
    real = os.path.realpath(folder_path(data))
    key = hashlib.blake2b(os.fsencode(f"{real}\n{options.storage}"), digest_size=6).hexdigest()
    return store.data_root(root) / "folders" / f"{short_name(data)}-{key}"


def _ready(listing: Listing, options: FolderConfig, place: Path) -> FolderDescription:
    """The description of a folder's arrays, which are made where they are missing or stale."""
    description = _described(listing, options, place)
    if description is not None:
        return description
    with _locked(listing, place):
        # Another process may have decoded them while this one waited.
        return _described(listing, options, place) or _decode(listing, options, place)


def _decode_again(listing: Listing, options: FolderConfig, place: Path) -> FolderDescription:
    """The description of arrays that were damaged, and have been made again."""
    with _locked(listing, place):
        description = _described(listing, options, place)
        try:
            if description is not None:
                open_arrays(place, description.source)
                return description
        except StaleError:
            pass
        return _decode(listing, options, place)


def _locked(listing: Listing, place: Path) -> Any:
    waiting = f"waiting: another process is decoding {listing.folder}"
    return store.locked(place.parent, place.name, lambda: notice(waiting))


def _described(listing: Listing, options: FolderConfig, place: Path) -> FolderDescription | None:
    try:
        found = read_record(place / "dataset.json", FolderDescription, schema=SCHEMA)
    except (FileNotFoundError, CommandError):
        return None
    current = (listing.stamp, options.storage)
    return found if (found.stamp, found.storage) == current else None


def _decode(listing: Listing, options: FolderConfig, place: Path) -> FolderDescription:
    """Decode every image into the place of a folder's arrays, complete or not at all."""
    splits, side = listing.splits(options.held_out), options.side
    total = sum(len(images) for images in splits.values())
    if words := listing.ignored_words():
        notice(words)
    decoder = _Decoder(listing.folder, options)
    root = place.parent.parent
    with writing_data(root), store.placing(place.parent, place.name) as staging:
        arrays = staging / "arrays"
        arrays.mkdir()
        with track(f"Decoding {listing.folder}", total) as advance:
            for name, images in splits.items():
                shape = (len(images), side, side, 3)
                # Mean and deviation of test images only where there are no others.
                measured = name == "train" or not splits["train"]
                parts = decoder.chunks(images, advance, measured=measured)
                save_rows(arrays / f"{name}_images.npy", shape, np.uint8, parts)
                labels = np.array([image.label for image in images], np.int64)
                save_rows(arrays / f"{name}_labels.npy", labels.shape, labels.dtype, [labels])
        if decoder.problems:
            raise DamagedError(listing.folder, total, decoder.problems)
        counts = (len(splits["train"]), len(splits["test"]))
        content = _content(listing, decoder.sums)
        found = FolderFacts(content, len(listing.class_names), *counts, *decoder.pixels.moments())
        description = FolderDescription(
            os.path.abspath(listing.folder),
            *(options.storage, listing.stamp, listing.class_names, found),
        )
        write_header(arrays, description.source)
        write_record(staging / "dataset.json", description)
    return description


def _content(listing: Listing, sums: dict[str, bytes]) -> str:
    """Fingerprint of classes, names and bytes: independent of the folder's place and of options."""
    digest = hashlib.blake2b(digest_size=12)
    for part in (listing.train, listing.test or ()):
        for image in part:
            name = listing.class_names[image.label]
            inside = f"/{image.name}".partition(f"/{name}/")[2]
            entry = (name, inside, sums[image.name].hex())
            digest.update(f"{entry}\n".encode())
        digest.update(b"\n")
    return digest.hexdigest()


class _Decoder:
    """Decodes images on all cores, in their order; collects sums, statistics and problems."""

    def __init__(self, folder: Path, options: FolderConfig) -> None:
        self._folder, self._side, self._resize = folder, options.side, options.resize
        self.sums: dict[str, bytes] = {}
        self.problems: list[tuple[str, str]] = []
        self.pixels = PixelCounts()

    def chunks(
        self, images: Sequence[ImageFile], advance: Advance, *, measured: bool = False
    ) -> Iterator[Bytes]:
        """The pixels of all images, part by part; black where one cannot be read."""
        size = max(1, min(CHUNK, CHUNK_BYTES // (3 * self._side**2)))
        # Pillow lets other threads run while it decodes.
        pool = ThreadPoolExecutor(cores())
        try:
            with without_warnings():
                for first in range(0, len(images), size):
                    chosen = images[first : first + size]
                    pixels = np.zeros((len(chosen), self._side, self._side, 3), np.uint8)
                    self.problems += filter(None, pool.map(self._fill, chosen, pixels))
                    if measured:
                        self.pixels.add(pixels)
                    yield pixels
                    advance(len(chosen))
        finally:
            pool.shutdown(cancel_futures=True)

    def _fill(self, image: ImageFile, pixels: Bytes) -> tuple[str, str] | None:
        """Decode one image; its name and the reason if it cannot be read."""
        path = self._folder / image.name
        try:
            content = read_bytes(path, LARGEST_FILE)
            self.sums[image.name] = hashlib.blake2b(content, digest_size=16).digest()
            pixels[:] = read_square(content, self._side, self._resize)
        except FileNotFoundError:
            return image.name, "it is gone"
        except (CommandError, ValueError) as error:
            return image.name, str(error).removeprefix(f"{path} ")
        return None


class PixelCounts:
    """How often each value occurs in each channel: exact, whatever the parts."""

    def __init__(self) -> None:
        self._counts: npt.NDArray[np.int64] = np.zeros((3, 256), np.int64)

    def add(self, images: Bytes) -> None:
        """Count the values of more images."""
        for channel in range(3):
            values = images[..., channel].reshape(-1)
            self._counts[channel] += np.bincount(values, minlength=256)

    def moments(self) -> tuple[Triple, Triple]:
        """Mean and standard deviation of the channels, in 0 to 1; a deviation is at least 1/255."""
        values, total = np.arange(256), self._counts.sum(1)
        mean = self._counts @ values / total
        square = self._counts @ values**2 / total
        std = np.sqrt(np.maximum(square - mean**2, 1))
        return _triple(mean / 255), _triple(std / 255)


def _triple(values: npt.NDArray[np.float64]) -> Triple:
    red, green, blue = (round(float(value), 6) for value in values)
    return red, green, blue


def _check_same(folder: Path, before: FolderFacts, now: FolderFacts) -> None:
    if before.content != now.content:
        raise DataError(
            f"the images in {folder} are not those that the training was started with "
            f"({_words(before)} then, {_words(now)} now): restore them, or train on them in a new "
            f"run with --data folder:{folder} and another --out"
        )


def _words(found: FolderFacts) -> str:
    images = f"{found.train_images:,} + {found.test_images:,} images of {found.classes} classes"
    return f"{images}, fingerprint {found.content[:6]}"
