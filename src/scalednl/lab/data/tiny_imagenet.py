"""Tiny-ImageNet in its official layout, complete or with some of its classes.

    wnids.txt                          one class per line: its label is its place here
    words.txt                          names of the classes
    train/WNID/images/*.JPEG
    val/val_annotations.txt            file, tab, WNID, and a box that is not used
    val/images/*.JPEG                  the split that papers test on

Greyscale images become RGB.
"""

import zipfile
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from scalednl.lab.config.data_sets import DATA_SETS
from scalednl.lab.data.archives import DAMAGE, read_members
from scalednl.lab.data.data_set import Advance, DataSet, Decoded, Files
from scalednl.lab.data.errors import DataError
from scalednl.lab.data.image_file import read_picture
from scalednl.lab.data.splits import Bytes, Split
from scalednl.lab.data.store import get_again

SIDE = DATA_SETS["tiny-imagenet"].side
MAX_IMAGE = 2**18
MAX_TEXT = 16 * 2**20
ANNOTATIONS = "val/val_annotations.txt"
TEXTS = ("wnids.txt", "words.txt", ANNOTATIONS)
PACK = "tiny-imagenet.zip"
CHUNK = 500
"""Images decoded between two reports of progress"""

Labelled = list[tuple[str, int]]
"""Files of images, and their labels"""


@dataclass(frozen=True, kw_only=True)
class TinyImageNet(DataSet):
    """Tiny-ImageNet; the classes are those that wnids.txt lists."""

    def read_source(self, source: Path) -> Files:
        """The files that matter, by their path below the folder that contains wnids.txt."""
        found = dict(read_members(source, _limit))
        tops = [path.removesuffix("wnids.txt") for path in found if _last(path) == "wnids.txt"]
        if len(tops) != 1:
            raise DataError(
                f"{source} contains {len(tops) or 'no'} wnids.txt: give the archive of "
                "Tiny-ImageNet, or the folder that contains wnids.txt"
            )
        top = tops[0]
        return {path.removeprefix(top): found[path] for path in found if path.startswith(top)}

    def decode(self, files: Files, source: Path, advance: Advance) -> Decoded:
        """Every image of the classes in wnids.txt; the test split is the official `val`."""
        wnids = _text(files, "wnids.txt", source).split()
        if not wnids or len(set(wnids)) != len(wnids):
            raise DataError(f"{source}: wnids.txt lists no class, or one of them twice")
        labels = {wnid: label for label, wnid in enumerate(wnids)}
        images = {
            "train": _training_images(files, labels, source),
            "test": _validation_images(files, labels, source),
        }
        splits = {
            split: Split(
                _pixels(files, [name for name, _ in labelled], source, advance),
                np.array([label for _, label in labelled], np.int64),
            )
            for split, labelled in images.items()
        }
        used = [name for name in TEXTS if name in files]
        used += [name for labelled in images.values() for name, _ in labelled]
        return Decoded(splits, _class_names(files, wnids), {name: files[name] for name in used})

    def write(self, files: Files, folder: Path) -> None:
        """Store all files in one zip, not compressed further: JPEG already is."""
        with zipfile.ZipFile(folder / PACK, "w", zipfile.ZIP_STORED) as pack:
            for name, content in files.items():
                # ZipInfo has a fixed time, so that the same files give the same zip.
                pack.writestr(zipfile.ZipInfo(name), content)

    def read(self, folder: Path) -> Files:
        """The files of the zip."""
        name, files = "", {}
        try:
            with zipfile.ZipFile(folder / PACK) as pack:
                for name in pack.namelist():
                    files[name] = pack.read(name)
        except (*DAMAGE, OSError) as error:
            raise DataError(
                f"{folder / PACK} is damaged ({name}: {error}): {get_again(folder.parent)}"
            ) from error
        return files


def _limit(path: str) -> int | None:
    name = _last(path)
    if not path.isprintable():
        return None
    if name in ("wnids.txt", "words.txt", "val_annotations.txt"):
        return MAX_TEXT
    return MAX_IMAGE if name.lower().endswith((".jpeg", ".jpg")) else None


def _last(path: str) -> str:
    return PurePosixPath(path).name


def _class_names(files: Files, wnids: list[str]) -> tuple[str, ...]:
    """The first name of each class, or its wnid where words.txt has none."""
    words = {}
    for line in files.get("words.txt", b"").decode("utf-8", "replace").splitlines():
        wnid, _, names = line.partition("\t")
        words[wnid] = names.partition(",")[0].strip()
    return tuple(words.get(wnid) or wnid for wnid in wnids)


def _training_images(files: Files, labels: Mapping[str, int], source: Path) -> Labelled:
    folders: dict[str, list[str]] = {}
    for name in files:
        folders.setdefault(name[: name.rfind("/") + 1], []).append(name)
    images: Labelled = []
    for wnid, label in labels.items():
        folder = f"train/{wnid}/images/"
        if folder not in folders:
            raise DataError(
                f"{source} has no images in {folder}, although wnids.txt lists {wnid}: the copy is "
                "incomplete; download it again"
            )
        # By length first, so that _2 comes before _10.
        names = sorted(folders[folder], key=lambda name: (len(name), name))
        images += [(name, label) for name in names]
    return images


def _validation_images(files: Files, labels: Mapping[str, int], source: Path) -> Labelled:
    images: Labelled = []
    for number, line in enumerate(_text(files, ANNOTATIONS, source).splitlines(), start=1):
        if not line.strip():
            continue
        name, wnid = (*(part.strip() for part in line.split("\t")), "")[:2]
        if not wnid:
            raise DataError(
                f"{source}: line {number} of {ANNOTATIONS} is not a file, a tab and a class"
            )
        if wnid not in labels:
            continue
        if f"val/images/{name}" not in files:
            raise DataError(
                f"{source}: line {number} of {ANNOTATIONS} names {name}, which is not in "
                "val/images: the copy is incomplete; download it again"
            )
        images.append((f"val/images/{name}", labels[wnid]))
    _check_annotations(images, source)
    return images


def _check_annotations(images: Labelled, source: Path) -> None:
    """Every image once, every class equally often: the official split has 50 of each."""
    if not images:
        raise DataError(f"{source}: {ANNOTATIONS} has no image of the classes in wnids.txt")
    name, times = Counter(name for name, _ in images).most_common(1)[0]
    if times > 1:
        raise DataError(f"{source}: {ANNOTATIONS} names {name} more than once; download it again")
    counts = Counter(label for _, label in images).values()
    if len(set(counts)) > 1:
        raise DataError(
            f"{source}: {ANNOTATIONS} has {min(counts)} images of one class and {max(counts)} of "
            "another: it is truncated; download it again"
        )


def _text(files: Files, name: str, source: Path) -> str:
    if name not in files:
        raise DataError(f"{source} has no {name}: it is not a complete Tiny-ImageNet")
    try:
        return files[name].decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{source}: {name} is not text ({error.reason}): download it again"
        ) from error


def _pixels(files: Files, names: list[str], source: Path, advance: Advance) -> Bytes:
    pixels = np.empty((len(names), SIDE, SIDE, 3), np.uint8)

    def fill(index: int) -> None:
        name = names[index]
        where = f"{source}: {name}"
        pixels[index] = read_picture(files[name], "JPEG", where, SIDE, range(SIDE, SIDE + 1))

    # Pillow lets other threads run while it decodes.
    with ThreadPoolExecutor() as pool:
        for first in range(0, len(names), CHUNK):
            last = min(first + CHUNK, len(names))
            list(pool.map(fill, range(first, last)))
            advance(last - first)
    return pixels
