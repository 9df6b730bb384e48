"""Folders of images are decoded once, completely or not at all."""

import errno
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from scalednl.errors import CommandError, UsageError
from scalednl.files import read_bytes
from scalednl.lab.config import Experiment, FolderConfig
from scalednl.lab.data import arrays, folder_cache
from scalednl.lab.data.augment import PaddedCrop
from scalednl.lab.data.batches import Batches
from scalednl.lab.data.errors import DiskError
from scalednl.lab.data.folder_cache import (
    PixelCounts,
    is_current,
    load_folder,
    stored_folders,
    verify_folder,
    with_images,
)
from scalednl.lab.data.image_file import read_square
from scalednl.lab.data.splits import ImageData
from tests.lab.data.builders import image_folder, random_images

OPTIONS = FolderConfig(side=8)
SPLIT = {"train/cat": 5, "train/dog": 4, "val/cat": 2, "val/dog": 1}


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """A folder of twelve images."""
    return image_folder(tmp_path / "pets", SPLIT)


def _load(folder: Path, options: FolderConfig = OPTIONS) -> ImageData:
    return load_folder(f"folder:{folder}", options, folder.parent / "root")


def _decodings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with every image that is decoded."""
    seen: list[str] = []
    real = folder_cache._Decoder._fill

    def fill(self: Any, image: Any, pixels: Any) -> Any:
        seen.append(image.name)
        return real(self, image, pixels)

    monkeypatch.setattr(folder_cache._Decoder, "_fill", fill)
    return seen


def test_images_and_labels(pets: Path) -> None:
    """Every image as it was saved, in the order of classes and names; others give black edges."""
    for name in ("train/cat", "train/dog", "val/cat", "val/dog"):
        for path in (pets / name).iterdir():
            colour = (10 * len(name), 100, int(path.stem) * 10)
            Image.new("RGB", (20, 8), colour).save(path.with_suffix(".png"))
            path.unlink()
    data = _load(pets)
    assert list(data.class_names) == ["cat", "dog"]
    assert data.train.labels.tolist() == [0] * 5 + [1] * 4
    assert data.test.labels.tolist() == [0, 0, 1]
    assert data.train.images.shape == (9, 8, 8, 3)
    assert (data.train.images[6] == (90, 100, 10)).all()
    padded = _load(pets, FolderConfig(side=10, resize="pad"))
    assert (padded.test.images[0, 3:7] == (70, 100, 0)).all()
    assert (padded.test.images[0, :3] == 0).all()


def test_the_second_time_nothing_is_decoded(pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arrays are mapped from disk; batches read them there, without a copy of all."""
    seen = _decodings(monkeypatch)
    first = _load(pets)
    assert len(seen) == 12
    second = _load(pets)
    assert len(seen) == 12
    assert np.array_equal(first.train.images, second.train.images)
    assert isinstance(second.train.images, np.memmap)
    batches = Batches(second, second.train, 4, PaddedCrop(0))
    assert batches._images.data_ptr() == second.train.images.ctypes.data
    assert torch.equal(batches._images, torch.from_numpy(np.array(first.train.images)))


@pytest.mark.parametrize("case", ["image", "options", "arrays", "description"])
def test_what_changed_is_decoded_again(
    pets: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """Another image, another side, and arrays or a description that are damaged."""
    before = _load(pets).train.images.copy()
    seen, options = _decodings(monkeypatch), OPTIONS
    place = next((pets.parent / "root" / "folders").glob("pets-*"))
    if case == "image":
        shutil.copy(pets / "train/cat/0.jpg", pets / "train/cat/1.jpg")
    elif case == "options":
        options = replace(OPTIONS, side=9)
    elif case == "arrays":
        (place / "arrays" / "train_images.npy").write_bytes(b"damaged")
    else:
        (place / "dataset.json").write_text("{")
    after = _load(pets, options)
    assert len(seen) == 12
    if case == "image":
        assert np.array_equal(after.train.images[0], after.train.images[1])
    elif case != "options":
        assert np.array_equal(after.train.images, before)
    _load(pets, options)
    assert len(seen) == 12


def test_mean_and_deviation_are_those_of_the_training_images(pets: Path) -> None:
    """Exact, whatever the parts; a channel without variation is divided by one level."""
    data = _load(pets)
    pixels = data.train.images.reshape(-1, 3) / 255
    assert data.mean == pytest.approx(pixels.mean(0), abs=1e-6)
    assert data.std == pytest.approx(pixels.std(0), abs=1e-6)
    counts, images = PixelCounts(), random_images(50, 6)
    images[..., 2] = 7
    for first in range(0, 50, 20):
        counts.add(images[first : first + 20])
    mean, std = counts.moments()
    assert mean == pytest.approx(images.reshape(-1, 3).mean(0) / 255, abs=1e-6)
    assert std[:2] == pytest.approx(images.reshape(-1, 3).std(0)[:2] / 255, abs=1e-6)
    assert std[2] == pytest.approx(1 / 255, abs=1e-6)


def test_damaged_images_are_counted_and_named(pets: Path) -> None:
    """All are counted, the first three named with their reasons; nothing is stored."""
    (pets / "train/cat/0.jpg").write_bytes(b"")
    cut = (pets / "train/cat/1.jpg").read_bytes()
    (pets / "train/cat/1.jpg").write_bytes(cut[: len(cut) // 2])
    for number in (2, 3):
        (pets / f"train/dog/{number}.jpg").write_text("not found")
    with pytest.raises(CommandError) as error:
        _load(pets)
    said = str(error.value)
    assert said.startswith(f"4 of 12 images in {pets} cannot be read: train/cat/0.jpg (")
    assert "train/cat/1.jpg (" in said
    assert "train/dog/2.jpg (not an image of a known kind) and 1 more; remove or replace" in said
    assert f"`scalednl data verify folder:{pets}` lists all" in said
    assert not [path for path, _ in stored_folders(pets.parent / "root")]
    listing, problems = verify_folder(f"folder:{pets}")
    assert len(listing.train) == 9
    assert [name for name, _ in problems][2:] == ["train/dog/2.jpg", "train/dog/3.jpg"]


def test_unreadable_images_are_named(pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without permission, files that vanish, and files larger than any image."""

    def read(path: Path, largest: int) -> bytes:
        if path.name == "0.jpg" and path.parent.name == "cat":
            raise CommandError(f"{path} cannot be read: Permission denied")
        if path.name == "3.jpg":
            raise FileNotFoundError(path)
        return read_bytes(path, largest)

    monkeypatch.setattr(folder_cache, "read_bytes", read)
    _, problems = verify_folder(f"folder:{pets}")
    assert problems == [
        ("train/cat/0.jpg", "cannot be read: Permission denied"),
        ("train/cat/3.jpg", "it is gone"),
        ("train/dog/3.jpg", "it is gone"),
        ("val/cat/0.jpg", "cannot be read: Permission denied"),
    ]
    monkeypatch.setattr(folder_cache, "LARGEST_FILE", 10)
    monkeypatch.setattr(folder_cache, "read_bytes", read_bytes)
    _, problems = verify_folder(f"folder:{pets}")
    assert len(problems) == 12
    assert problems[0][1].endswith("bytes (limit 10)")


def _left(root: Path) -> list[str]:
    return [path.name for path in (root / "folders").iterdir() if not path.name.endswith(".lock")]


def test_an_interruption_leaves_nothing(pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither Ctrl-C nor a full disk; what a kill left is removed, and decoding starts again."""

    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(folder_cache, "read_square", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _load(pets)
    assert _left(pets.parent / "root") == []
    monkeypatch.setattr(folder_cache, "read_square", read_square)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folder_cache, "save_rows", full)
        with pytest.raises(DiskError, match=r"root is full: free some space, or choose another"):
            _load(pets)
    assert _left(pets.parent / "root") == []
    place = folder_cache._place(f"folder:{pets}", OPTIONS, pets.parent / "root")
    killed = place.with_name(f".{place.name}.getting")
    (killed / "arrays").mkdir(parents=True)
    (killed / "arrays" / "train_images.npy").write_bytes(b"half")
    assert len(_load(pets).train) == 9
    assert _left(pets.parent / "root") == [place.name]


def test_a_failure_keeps_the_arrays_of_before(pets: Path) -> None:
    """They are replaced only when all images have been decoded."""
    _load(pets)
    path = pets / "train/cat/0.jpg"
    path.write_bytes(b"x")
    with pytest.raises(CommandError, match="1 of 12 images"):
        _load(pets)
    assert len(_left(pets.parent / "root")) == 1


def test_two_at_once_decode_once(
    pets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second waits for the first, says so, and uses its arrays."""
    seen, started, go = _decodings(monkeypatch), threading.Event(), threading.Event()
    real = folder_cache._decode

    def slow(*arguments: Any) -> Any:
        started.set()
        assert go.wait(60)
        return real(*arguments)

    monkeypatch.setattr(folder_cache, "_decode", slow)

    def notice(text: str) -> None:
        print(text)
        go.set()

    monkeypatch.setattr(folder_cache, "notice", notice)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(len(_load(pets).train)))]
    threads[0].start()
    assert started.wait(60)
    assert len(_load(pets).train) == 9
    threads[0].join(60)
    assert found == [9]
    assert len(seen) == 12
    assert f"waiting: another process is decoding {pets}" in capsys.readouterr().out


def test_large_arrays_are_not_read_when_opened(pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may be larger than the memory is compared by its shape."""
    _load(pets)
    monkeypatch.setattr(arrays, "MOST_CHECKED", 1)
    monkeypatch.setattr(arrays, "_checksum", lambda _: pytest.fail("it was read"))
    monkeypatch.setattr(folder_cache, "_decode", lambda *_: pytest.fail("it was decoded"))
    assert len(_load(pets).train) == 9
    place = folder_cache._place(f"folder:{pets}", OPTIONS, pets.parent / "root")
    shutil.copy(place / "arrays/test_images.npy", place / "arrays/train_images.npy")
    with pytest.raises(BaseException, match="it was decoded"):
        _load(pets)


def test_content_does_not_depend_on_place_or_time(pets: Path) -> None:
    """A copy elsewhere is the same experiment, from a relative path too; other bytes are not."""
    root = pets.parent / "root"
    first = with_images(Experiment(data=f"folder:{pets}", folder=OPTIONS), root)
    assert first.folder.found is not None
    assert (first.folder.found.train_images, first.folder.found.test_images) == (9, 3)
    copy = pets.parent / "copy"
    shutil.copytree(pets, copy, copy_function=shutil.copyfile)
    (copy / "val").rename(copy / "test")
    relative = f"folder:{os.path.relpath(copy)}"
    second = with_images(Experiment(data=relative, folder=OPTIONS), root)
    assert second.data == f"folder:{copy}"
    assert first.folder == second.folder
    assert first.cell == second.cell
    assert with_images(second, root) is second
    assert with_images(Experiment()) == Experiment()
    shutil.copy(copy / "train/cat/0.jpg", copy / "train/cat/1.jpg")
    third = with_images(Experiment(data=relative, folder=OPTIONS), root)
    assert third.folder.found is not None
    assert third.folder.found.content != first.folder.found.content
    other_side = with_images(Experiment(data=f"folder:{pets}", folder=FolderConfig(side=9)), root)
    assert other_side.folder.found is not None
    assert other_side.folder.found.content == first.folder.found.content


def test_other_images_than_before_are_refused(pets: Path) -> None:
    """The options of a record say which images; normalisation is that of the record."""
    experiment = with_images(
        Experiment(data=f"folder:{pets}", folder=OPTIONS), pets.parent / "root"
    )
    found = experiment.folder.found
    assert found is not None
    other = replace(OPTIONS, found=replace(found, mean=(0.1, 0.2, 0.3)))
    assert _load(pets, other).mean == (0.1, 0.2, 0.3)
    (pets / "val/cat/0.jpg").unlink()
    said = r"are not those that the training was started with \(9 \+ 3 images of 2 classes, .* now"
    with pytest.raises(CommandError, match=said):
        _load(pets, experiment.folder)


def test_stored_folders_are_listed(pets: Path) -> None:
    """With their state: as they are, changed, gone, or damaged."""
    root = pets.parent / "root"
    assert list(stored_folders(root)) == []
    _load(pets)
    [(place, found)] = stored_folders(root)
    assert found is not None
    assert found.path == str(pets)
    assert is_current(found)
    (pets / "train/cat/0.jpg").unlink()
    assert not is_current(found)
    shutil.rmtree(pets)
    assert not is_current(found)
    (place / "dataset.json").unlink()
    assert list(stored_folders(root)) == [(place, None)]


def test_files_left_out_are_mentioned(pets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, when the folder is decoded."""
    (pets / "train/cat/a.heic").write_bytes(b"x")
    _load(pets)
    said = f"scalednl: leaving out 1 file in {pets} with names of other kinds (1 .heic)\n"
    assert capsys.readouterr().err == said


def test_a_path_that_is_no_folder(tmp_path: Path) -> None:
    """Nothing is written."""
    with pytest.raises(UsageError, match="does not exist"):
        _load(tmp_path / "nothing")
    assert not (tmp_path / "root").exists()
