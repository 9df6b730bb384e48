"""Tiny-ImageNet in its official layout, whole or with some of its classes.

    wnids.txt                          one class a line: its label is its place here
    words.txt                          what the classes are called
    train/WNID/images/*.JPEG
    val/val_annotations.txt            file, tab, WNID, and a box that is not used
    val/images/*.JPEG                  the split that papers test on

Greyscale images become RGB.
"""

import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from scalednl.lab.data.archives import read_members
from scalednl.lab.data.errors import DataError
from scalednl.lab.data.image_file import read_picture
from scalednl.lab.data.splits import Bytes, Split

SIDE = 64
MAX_IMAGE = 2**18
MAX_TEXT = 16 * 2**20
TEXTS = ("wnids.txt", "words.txt", "val/val_annotations.txt")
PACK = "tiny-imagenet.zip"
Advance = Callable[[int], None]


Images = list[tuple[str, int]]
"""File and label"""


@dataclass(frozen=True)
class Layout:
    """What belongs to which split and class."""

    wnids: tuple[str, ...]
    train: Images
    test: Images


def read_files(source: Path) -> dict[str, bytes]:
    """The files that matter, by their path below the folder that holds wnids.txt."""
    found = {}
    for path, content in read_members(source, _limit):
        found[path] = content
    tops = [path.removesuffix("wnids.txt") for path in found if _last(path) == "wnids.txt"]
    if len(tops) != 1:
        count = "no" if not tops else "more than one"
        raise DataError(
            f"{source} holds {count} wnids.txt: name the archive of Tiny-ImageNet itself, or the "
            "folder that wnids.txt lies in"
        )
    top = tops[0]
    return {path.removeprefix(top): found[path] for path in found if path.startswith(top)}


def write_pack(files: Mapping[str, bytes], path: Path) -> None:
    """All files in one, not compressed further: JPEG is."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as pack:
        for name, content in files.items():
            # A fixed time, so that the same files give the same pack.
            pack.writestr(zipfile.ZipInfo(name), content)


def layout(files: Mapping[str, bytes], source: Path) -> Layout:
    """What the texts say, every file that they name checked to be there."""
    wnids = _text(files, "wnids.txt", source).split()
    if not wnids or len(set(wnids)) != len(wnids):
        raise DataError(f"{source}: wnids.txt names no class, or one of them twice")
    labels = {wnid: label for label, wnid in enumerate(wnids)}
    train = _training_images(files, labels, source)
    return Layout(tuple(wnids), train, _validation_images(files, labels, source))


def used_files(files: Mapping[str, bytes], plan: Layout) -> dict[str, bytes]:
    """Those files that the classes of wnids.txt need."""
    names = [name for name in TEXTS if name in files]
    names += [name for name, _ in (*plan.train, *plan.test)]
    return {name: files[name] for name in names}


def decode(
    files: Mapping[str, bytes], plan: Layout, source: Path, advance: Advance
) -> dict[str, Split]:
    """Every image as pixels; `advance` is called with the number of images done since the last."""
    return {
        split: Split(
            _pixels(files, [name for name, _ in images], source, advance),
            np.array([label for _, label in images], np.int64),
        )
        for split, images in (("train", plan.train), ("test", plan.test))
    }


def class_names(files: Mapping[str, bytes], plan: Layout) -> tuple[str, ...]:
    """The first word for each class, or its wnid where words.txt has none."""
    words = {}
    for line in files.get("words.txt", b"").decode("utf-8", "replace").splitlines():
        wnid, _, names = line.partition("\t")
        words[wnid] = names.partition(",")[0].strip()
    return tuple(words.get(wnid) or wnid for wnid in plan.wnids)


def _limit(path: str) -> int | None:
    name = _last(path)
    if name in ("wnids.txt", "words.txt", "val_annotations.txt"):
        return MAX_TEXT
    return MAX_IMAGE if name.lower().endswith((".jpeg", ".jpg")) else None


def _last(path: str) -> str:
    return PurePosixPath(path).name


def _training_images(files: Mapping[str, bytes], labels: Mapping[str, int], source: Path) -> Images:
    folders: dict[str, list[str]] = {}
    for name in files:
        folders.setdefault(name[: name.rfind("/") + 1], []).append(name)
    images: Images = []
    for wnid, label in labels.items():
        folder = f"train/{wnid}/images/"
        if folder not in folders:
            raise DataError(
                f"{source} has no images in {folder}, though wnids.txt names {wnid}: the copy is "
                "not whole; get it again"
            )
        # By length first, so that _2 comes before _10.
        names = sorted(folders[folder], key=lambda name: (len(name), name))
        images += [(name, label) for name in names]
    return images


def _validation_images(
    files: Mapping[str, bytes], labels: Mapping[str, int], source: Path
) -> Images:
    table = "val/val_annotations.txt"
    images: Images = []
    for number, line in enumerate(_text(files, table, source).splitlines(), start=1):
        if not line.strip():
            continue
        name, _, rest = line.partition("\t")
        wnid = rest.partition("\t")[0].strip()
        if not wnid:
            raise DataError(f"{source}: line {number} of {table} is not a file, a tab and a class")
        if wnid not in labels:
            continue
        if f"val/images/{name}" not in files:
            raise DataError(
                f"{source}: line {number} of {table} names {name}, which is not in val/images: the "
                "copy is not whole; get it again"
            )
        images.append((f"val/images/{name}", labels[wnid]))
    if not images:
        raise DataError(f"{source}: {table} has no image of the classes in wnids.txt")
    _check_counts(images, table, source)
    return images


def _check_counts(images: Images, table: str, source: Path) -> None:
    """Every image once, every class as often: the official split has 50 of each."""
    counts = Counter(label for _, label in images)
    twice = [name for name, times in Counter(name for name, _ in images).items() if times > 1]
    if twice:
        raise DataError(f"{source}: {table} names {twice[0]} more than once; get the copy again")
    if len(set(counts.values())) > 1:
        raise DataError(
            f"{source}: {table} has {min(counts.values())} images of one class and "
            f"{max(counts.values())} of another: it is cut off; get the copy again"
        )


def _text(files: Mapping[str, bytes], name: str, source: Path) -> str:
    if name not in files:
        raise DataError(f"{source} has no {name}: it is not a whole Tiny-ImageNet")
    try:
        return files[name].decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{source}: {name} is not text ({error.reason}): get it again") from error


def _pixels(files: Mapping[str, bytes], names: list[str], source: Path, advance: Advance) -> Bytes:
    pixels = np.empty((len(names), SIDE, SIDE, 3), np.uint8)

    def fill(index: int) -> None:
        pixels[index] = _image(files[names[index]], names[index], source)

    step = 500
    # Pillow lets other threads run while it decodes.
    with ThreadPoolExecutor() as pool:
        for first in range(0, len(names), step):
            for _ in pool.map(fill, range(first, min(first + step, len(names)))):
                pass
            advance(min(step, len(names) - first))
    return pixels


def _image(content: bytes, name: str, source: Path) -> Bytes:
    return read_picture(content, "JPEG", f"{source}: {name}", SIDE, range(SIDE, SIDE + 1))
