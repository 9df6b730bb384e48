"""Folders of images: what is listed, what is left out, what is refused."""

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from scalednl.errors import CommandError
from scalednl.lab.data import image_folder as module
from scalednl.lab.data.image_folder import list_images
from tests.lab.data.builders import image_folder

SPLIT = {"train/cat": 3, "train/dog": 2, "val/cat": 1, "val/dog": 2}


def _names(images: object) -> list[str]:
    assert images is not None
    return [image.name for image in images]  # type: ignore[attr-defined]


def test_classes_are_the_folders_by_name(tmp_path: Path) -> None:
    """Labels follow the sorted names, the same in both splits, and images are in order."""
    found = list_images(image_folder(tmp_path, {"train/dog": 1, "train/Cat": 11, "val/dog": 1}))
    assert found.class_names == ("Cat", "dog")
    assert [image.label for image in found.train] == [0] * 11 + [1]
    assert _names(found.train)[:3] == ["train/Cat/0.jpg", "train/Cat/1.jpg", "train/Cat/10.jpg"]
    assert [(image.name, image.label) for image in found.test or ()] == [("val/dog/0.jpg", 1)]


def test_test_stands_in_for_val(tmp_path: Path) -> None:
    """`val` is used where both exist."""
    folder = image_folder(tmp_path, {"train/a": 1, "train/b": 1, "test/a": 2, "val/b": 1})
    assert _names(list_images(folder).test) == ["val/b/0.jpg"]
    shutil.rmtree(folder / "val")
    assert _names(list_images(folder).test) == ["test/a/0.jpg", "test/a/1.jpg"]


@pytest.mark.parametrize("place", ["", "train/"])
def test_a_share_of_each_class_is_held_out(tmp_path: Path, place: str) -> None:
    """At least one of each class, never all; the same images each time."""
    counts = {f"{place}{name}": count for name, count in (("a", 40), ("b", 2), ("c", 9))}
    listing = list_images(image_folder(tmp_path, counts))
    assert listing.test is None
    splits = listing.splits(0.1)
    assert Counter(image.label for image in splits["test"]) == {0: 4, 1: 1, 2: 1}
    assert Counter(image.label for image in splits["train"]) == {0: 36, 1: 1, 2: 8}
    assert set(splits["train"]) | set(splits["test"]) == set(listing.train)
    assert splits == list_images(tmp_path).splits(0.1)
    assert Counter(image.label for image in listing.splits(0.9)["train"]) == {0: 4, 1: 1, 2: 1}


def test_another_class_leaves_the_draw_of_the_others(tmp_path: Path) -> None:
    """What is held out of a class depends on its own name and files alone."""
    folder = image_folder(tmp_path, {"b": 20, "c": 20})
    before = _names(list_images(folder).splits(0.2)["test"])
    image_folder(tmp_path, {"a": 5})
    after = _names(list_images(folder).splits(0.2)["test"])
    assert [name for name in after if name[0] != "a"] == before


def test_images_in_folders_inside_a_class(tmp_path: Path) -> None:
    """They belong to the class; endings may be in capitals."""
    folder = image_folder(tmp_path, {"a/one/two": 1, "b": 1})
    (folder / "b" / "0.jpg").rename(folder / "b" / "0.JPEG")
    assert _names(list_images(folder).train) == ["a/one/two/0.jpg", "b/0.JPEG"]


def test_other_files_are_left_out(tmp_path: Path) -> None:
    """Hidden files and those of file managers silently; others are counted by their endings."""
    folder = image_folder(tmp_path, SPLIT)
    before = list_images(folder)
    assert not before.ignored_words()
    for name in (".DS_Store", "._0.jpg", "Thumbs.db", "desktop.ini"):
        (folder / "train" / "cat" / name).write_bytes(b"x")
        (folder / "train" / name).write_bytes(b"x")
    for name in (".git", "__MACOSX", ".ipynb_checkpoints"):
        (folder / "train" / name).mkdir()
    assert list_images(folder) == before
    for name in ("cat/a.heic", "cat/b.heic", "cat/notes", "loose.jpg"):
        (folder / "train" / name).write_bytes(b"x")
    os.mkfifo(folder / "train" / "cat" / "pipe.png")
    found = list_images(folder)
    assert found.train == before.train
    words = found.ignored_words()
    assert words.startswith(f"leaving out 5 files in {folder} with names of other kinds (2 .heic")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    """An image may have one, a class may not: its name is recorded and printed."""
    folder = image_folder(tmp_path, {"a": 1, "b": 1})
    odd = os.fsdecode(b"caf\xe9")
    (folder / "a" / "0.jpg").rename(folder / "a" / f"{odd}.jpg")
    found = list_images(folder)
    assert _names(found.train) == [f"a/{odd}.jpg", "b/0.jpg"]
    assert len(found.stamp) == 32
    (folder / "a").rename(folder / odd)
    with pytest.raises(CommandError, match=r"not UTF-8 or not printable: rename this folder"):
        list_images(folder)
    (folder / odd).rename(folder / "two\nlines")
    with pytest.raises(CommandError, match=r"not UTF-8 or not printable: rename this folder"):
        list_images(folder)


def _change(folder: Path) -> None:
    (folder / "train" / "cat" / "0.jpg").write_bytes(b"other")


def _replace_unseen(folder: Path) -> None:
    """Another file of the same size and time."""
    path = folder / "train" / "cat" / "0.jpg"
    before = path.stat()
    path.write_bytes(bytes(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "changed": _change,
    "replaced": _replace_unseen,
    "added": lambda f: shutil.copy(f / "train/cat/0.jpg", f / "train/cat/9.jpg"),
    "removed": lambda f: (f / "train/cat/0.jpg").unlink(),
    "renamed": lambda f: (f / "train/cat/0.jpg").rename(f / "train/cat/8.jpg"),
    "moved to val": lambda f: (f / "train/cat/0.jpg").rename(f / "val/cat/9.jpg"),
    "class renamed": lambda f: [(f / s / "cat").rename(f / s / "bat") for s in ("train", "val")],
}


@pytest.mark.parametrize("case", CHANGES)
def test_the_stamp_notices_changes(tmp_path: Path, case: str) -> None:
    """And stays the same without any."""
    folder = image_folder(tmp_path, SPLIT)
    before = list_images(folder).stamp
    assert list_images(folder).stamp == before
    CHANGES[case](folder)
    assert list_images(folder).stamp != before


def _link(folder: Path, name: str, target: Path) -> None:
    (folder / name).symlink_to(target)


REFUSED: dict[str, tuple[dict[str, int], Callable[[Path], object], str]] = {
    "missing": ({}, lambda _: None, "the folder of images .*pets does not exist"),
    "a file": ({}, lambda f: f.write_bytes(b"PK"), "pets is not a folder: unpack it first"),
    "empty": ({}, lambda f: f.mkdir(), "pets has no folders: put the images of each class"),
    "images alone": ({".": 3}, lambda _: None, "has 3 images but no folders: put the images"),
    "images in train": ({"train": 2}, lambda _: None, "train has 2 images but no folders"),
    "one class": ({"cat": 3}, lambda _: None, "has one class, cat: a training needs at least two"),
    "empty class": (
        {"cat": 2, "dog": 0},
        lambda _: None,
        "the class dog in .*pets has no images: add some that end in .png .jpg",
    ),
    "other files": (
        {"cat": 2, "dog": 0},
        lambda f: (f / "dog" / "a.heic").write_bytes(b"x"),
        "the class dog in .*pets has no images, only 1 .heic: add some",
    ),
    "class of val alone": (
        {**SPLIT, "val/emu": 1},
        lambda _: None,
        "val has the class emu, which .*train has not",
    ),
    "empty val": (
        {"train/cat": 1, "train/dog": 1, "val/cat": 0},
        lambda _: None,
        "val has no images: add some, or remove it",
    ),
    "link out": (
        SPLIT,
        lambda f: _link(f, "train/cat/x.jpg", f.parent / "elsewhere"),
        "x.jpg is a link to outside of .*pets: copy what it leads to instead",
    ),
    "class link out": (
        SPLIT,
        lambda f: _link(f, "train/emu", f.parent),
        "emu is a link to outside of .*pets",
    ),
    "split link out": (
        {"train/cat": 1, "train/dog": 1},
        lambda f: _link(f, "val", f.parent),
        "val is a link to outside of .*pets",
    ),
    "loop": (
        SPLIT,
        lambda f: _link(f, "train/cat/again", f / "train" / "cat"),
        "again is a link to a folder that contains it: remove it",
    ),
    "broken link": (
        SPLIT,
        lambda f: _link(f, "train/cat/x.jpg", f / "train" / "nothing"),
        "x.jpg cannot be read: No such file",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_folder_of_classes_is_refused(tmp_path: Path, case: str) -> None:
    """In one sentence that names the place and what to do."""
    counts, change, said = REFUSED[case]
    folder = tmp_path / "pets"
    image_folder(folder, counts)
    change(folder)
    with pytest.raises(CommandError, match=said) as error:
        list_images(folder)
    assert "\n" not in str(error.value)


def test_links_inside_are_followed(tmp_path: Path) -> None:
    """To an image and to a folder; the folder itself may be a link too."""
    folder = image_folder(tmp_path / "pets", {"a": 1, "b": 1})
    _link(folder, "b/1.jpg", folder / "a" / "0.jpg")
    _link(folder, "c", folder / "b")
    (tmp_path / "link").symlink_to(folder)
    names = ["a/0.jpg", "b/0.jpg", "b/1.jpg", "c/0.jpg", "c/1.jpg"]
    assert _names(list_images(tmp_path / "link").train) == names


def test_one_image_in_a_class(tmp_path: Path) -> None:
    """Enough where there are test images, too few where one of it is to be held out."""
    folder = image_folder(tmp_path, {"train/a": 1, "train/b": 5, "val/a": 1})
    assert len(list_images(folder).splits(0.1)["train"]) == 6
    shutil.rmtree(folder / "val")
    said = "the class a in .* has 1 image, and one of each class is held out for tests: add images"
    with pytest.raises(CommandError, match=said):
        list_images(folder).splits(0.1)


def test_too_many_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the records can hold."""
    monkeypatch.setattr(module, "MOST_CLASSES", 2)
    with pytest.raises(CommandError, match=r"has 3 classes \(limit 2\)"):
        list_images(image_folder(tmp_path, {"a": 1, "b": 1, "c": 1}))


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder and the reason are named."""
    folder = image_folder(tmp_path, {"a": 1, "b": 1})

    def refuse(place: Path) -> None:
        raise PermissionError(13, "Permission denied", str(place))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(CommandError, match="cannot be read: Permission denied"):
        list_images(folder)
