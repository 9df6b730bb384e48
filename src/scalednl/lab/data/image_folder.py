"""The images of a folder in the ImageFolder layout, listed without opening any of them.

    PATH/train/CLASS/*.jpg     and PATH/val/CLASS/*.jpg, or test for val
    PATH/CLASS/*.jpg           a share of each class is held out for tests, as without val
    PATH/val/CLASS/*.jpg       test images alone, for networks that are trained already

Images may be in folders inside a class. Hidden files are left out, other files that are not images
are counted, and links that lead out of the folder are refused.
"""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scalednl.errors import UsageError
from scalednl.files import is_inside
from scalednl.lab.console import counted
from scalednl.lab.data.errors import DataError
from scalednl.lab.data.image_file import SUFFIXES
from scalednl.lab.seeds import derive_seed

TESTS = ("val", "test")
"""Folders of test images, the first of those that exist"""
JUNK = {"thumbs.db", "desktop.ini", "__macosx", "@eadir"}
"""Files and folders of file managers, in small letters"""
MOST_CLASSES = 1000
NEEDED = "a folder of images has PATH/train/CLASS and PATH/val/CLASS, or PATH/CLASS"


class ImageFile(NamedTuple):
    """An image: its place below the folder, its class, and what changes when it does."""

    name: str
    label: int
    size: int
    modified: int
    changed: int


@dataclass(frozen=True)
class Listing:
    """All images of a folder."""

    folder: Path
    class_names: tuple[str, ...]
    train: Sequence[ImageFile]
    """Empty if there are only test images"""
    test: Sequence[ImageFile] | None
    """None: the folder has none of its own"""
    ignored: Counter[str] = field(default_factory=Counter)
    """How many files are not images, by the end of their names"""

    @property
    def stamp(self) -> str:
        """Changes when an image is added, removed or changed; no image is opened for it."""
        digest = hashlib.blake2b(digest_size=16)
        for name in self.class_names:
            digest.update(f"{name}\n".encode())
        for part in (self.train, self.test or ()):
            for image in part:
                digest.update(f"{image}\n".encode())
            digest.update(b"\n")
        return digest.hexdigest()

    def splits(self, held_out: float) -> dict[str, Sequence[ImageFile]]:
        """Training and test images; a share of each class is held out if there are no others."""
        if self.test is not None:
            return {"train": self.train, "test": self.test}
        held: set[int] = set()
        for label, members in enumerate(_by_class(self.train, len(self.class_names))):
            name = self.class_names[label]
            if len(members) < 2:
                raise DataError(
                    f"the class {name} in {self.folder} has 1 image, and one of each class is held "
                    f"out for tests: add images to it, or make {self.folder / 'val'}"
                )
            draw = np.random.Generator(np.random.PCG64(derive_seed(0, "held out", name)))
            count = min(len(members) - 1, max(1, round(held_out * len(members))))
            held.update(int(index) for index in draw.permutation(members)[:count])
        return {
            "train": [image for index, image in enumerate(self.train) if index not in held],
            "test": [self.train[index] for index in sorted(held)],
        }

    def ignored_words(self) -> str:
        """What was left out, in words; empty if nothing was."""
        if not self.ignored:
            return ""
        kinds = ", ".join(f"{count:,} {end}" for end, count in self.ignored.most_common(4))
        total = counted(sum(self.ignored.values()), "file")
        return f"leaving out {total} in {self.folder} with names of other kinds ({kinds})"


def list_images(folder: Path) -> Listing:
    """The images of a folder, each class by name; an error says what is missing."""
    if not folder.exists():
        raise UsageError(f"the folder of images {folder} does not exist")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: unpack it first; {NEEDED}")
    ignored: Counter[str] = Counter()
    try:
        return _list(folder, ignored)
    except OSError as error:
        place = error.filename or folder
        raise DataError(f"{place} cannot be read: {error.strerror or error}") from error


def _list(folder: Path, ignored: Counter[str]) -> Listing:
    tests = next((name for name in TESTS if (folder / name).is_dir()), None)
    if not (folder / "train").is_dir():
        place = folder / (tests or "")
        names = _classes(place, folder, ignored)
        images = _images(place, folder, names, ignored)
        train, test = ([], images) if tests else (images, None)
        return Listing(folder, names, train, test, ignored)
    names = _classes(folder / "train", folder, ignored)
    train = _images(folder / "train", folder, names, ignored)
    if tests is None:
        return Listing(folder, names, train, None, ignored)
    place = folder / tests
    unknown = set(_folders(place, folder, ignored)) - set(names)
    if unknown:
        raise DataError(
            f"{place} has the class {min(unknown)}, which {folder / 'train'} has not: the classes "
            "of both must be the same"
        )
    test = _images(place, folder, names, ignored, may_lack=True)
    if not test:
        raise DataError(f"{place} has no images: add some, or remove it to hold out training ones")
    return Listing(folder, names, train, test, ignored)


def _classes(place: Path, folder: Path, ignored: Counter[str]) -> tuple[str, ...]:
    """The names of the class folders at a place."""
    names = _folders(place, folder, ignored)
    if not names:
        images = sum(ignored[end] for end in SUFFIXES)
        found = f"{counted(images, 'image')} but no folders" if images else "no folders"
        raise DataError(f"{place} has {found}: put the images of each class in a folder of its own")
    if len(names) == 1:
        raise DataError(f"{place} has one class, {names[0]}: a training needs at least two")
    if len(names) > MOST_CLASSES:
        raise DataError(f"{place} has {len(names):,} classes (limit {MOST_CLASSES:,})")
    for name in names:
        if not name.isprintable():
            shown = os.fsencode(name).decode("utf-8", "replace")
            raise DataError(
                f"{place} has the class {shown!r}, a name that is not UTF-8 or not printable: "
                "rename this folder"
            )
    return tuple(names)


def _folders(place: Path, folder: Path, ignored: Counter[str]) -> list[str]:
    """The folders at a place, sorted; files beside them are counted."""
    _check_link(place, folder)
    names = []
    for entry in _entries(place):
        _check_link(entry, folder)
        if entry.is_dir():
            names.append(entry.name)
        else:
            ignored[_end(entry.name)] += 1
    return names


def _images(
    place: Path,
    folder: Path,
    names: Sequence[str],
    ignored: Counter[str],
    *,
    may_lack: bool = False,
) -> list[ImageFile]:
    """The images of all classes at a place, class by class, by name."""
    found: list[ImageFile] = []
    for label, name in enumerate(names):
        if may_lack and not (place / name).is_dir():
            continue
        others: Counter[str] = Counter()
        parents = (os.path.realpath(place / name),)
        images = list(_walk(place / name, label, folder, others, parents))
        ignored.update(others)
        if not images and not may_lack:
            has = f", only {sum(others.values())} {others.most_common(1)[0][0]}" if others else ""
            raise DataError(
                f"the class {name} in {place} has no images{has}: add some that end in "
                f"{' '.join(SUFFIXES)}, or remove the folder"
            )
        found += images
    return found


def _walk(
    place: Path, label: int, folder: Path, ignored: Counter[str], parents: tuple[str, ...]
) -> Iterator[ImageFile]:
    """The images in a folder and in those inside of it; `parents` are the real paths on the way."""
    start = len(os.path.join(folder, ""))
    for entry in _entries(place):
        _check_link(entry, folder)
        if entry.is_dir():
            real = os.path.realpath(entry.path)
            if real in parents:
                raise DataError(f"{entry.path} is a link to a folder that contains it: remove it")
            yield from _walk(Path(entry.path), label, folder, ignored, (*parents, real))
        elif entry.name.lower().endswith(SUFFIXES) and _is_regular(entry):
            found = entry.stat()
            name = entry.path[start:].replace(os.sep, "/")
            yield ImageFile(name, label, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        else:
            ignored[_end(entry.name)] += 1


def _entries(place: Path) -> list["os.DirEntry[str]"]:
    """What is in a folder, by name, without hidden files and those of file managers."""
    with os.scandir(place) as entries:
        shown = [e for e in entries if e.name[0] != "." and e.name.lower() not in JUNK]
    return sorted(shown, key=lambda entry: entry.name)


def _check_link(found: "Path | os.DirEntry[str]", folder: Path) -> None:
    if found.is_symlink() and found != folder and not is_inside(Path(found), folder):
        raise DataError(
            f"{os.fspath(found)} is a link to outside of {folder}: copy what it leads to instead"
        )


def _is_regular(entry: "os.DirEntry[str]") -> bool:
    """Whether it is a file, not a pipe or a device; a link to nothing is an OSError."""
    return stat.S_ISREG(entry.stat().st_mode)


def _end(name: str) -> str:
    return os.path.splitext(name)[1].lower() or "without an ending"


def _by_class(images: Sequence[ImageFile], classes: int) -> list[list[int]]:
    members: list[list[int]] = [[] for _ in range(classes)]
    for index, image in enumerate(images):
        members[image.label].append(index)
    return members
