"""Stored data sets: damage of any part is one sentence, and other people's files are kept."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from scalednl.lab.data import fetch, load_data, store
from scalednl.lab.data.errors import DataError
from scalednl.lab.data.load import load_splits
from tests.lab.data.builders import quiet, small_cifar, stored, tar


def test_lost_files_and_descriptions_are_named(tmp_path: Path) -> None:
    """A missing file, a damaged description and an empty list of sums each get their sentence."""
    root, data = stored(tmp_path, "cifar10")
    folder = root / data.name
    (folder / "files" / "test_batch.bin").rename(tmp_path / "kept")
    with pytest.raises(DataError, match=r"has no test_batch\.bin"):
        fetch.verify(data, root)
    (tmp_path / "kept").rename(folder / "files" / "test_batch.bin")
    for name, said in (
        ("SHA256SUMS", "is damaged: .* is not in it"),
        ("dataset.json", "is damaged"),
    ):
        good = (folder / name).read_bytes()
        (folder / name).write_bytes(b"")
        with pytest.raises(DataError, match=said):
            fetch.verify(data, root)
        (folder / name).write_bytes(good)
    values = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps({**values, "schema": 99}))
    with pytest.raises(DataError, match="schema 99"):
        fetch.verify(data, root)


def test_a_missing_data_set_is_answered_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading before getting names the command, with --root for any folder but the default."""
    with pytest.raises(DataError, match=f"run `scalednl data get cifar10 --root {tmp_path}`"):
        store.describe(tmp_path / "cifar10", "cifar10")
    monkeypatch.setenv("SCALEDNL_DATA", str(tmp_path))
    with pytest.raises(DataError, match="run `scalednl data get cifar10`"):
        store.describe(tmp_path / "cifar10", "cifar10")


def test_other_files_and_folders_are_never_replaced(tmp_path: Path) -> None:
    """A folder, a file or a link of somebody else under the name stays as it is."""
    data, files = small_cifar()
    source = tar(tmp_path / "cifar.tar", files)
    mine = tmp_path / "mine" / data.name / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("precious")
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / data.name).write_text("precious")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / data.name).symlink_to(mine.parent)
    for root in ("mine", "file", "link"):
        with pytest.raises(DataError, match="is not a data set of scalednl"):
            fetch.get(data, tmp_path / root, quiet, source=source)
    assert mine.read_text() == "precious"
    assert (tmp_path / "file" / data.name).read_text() == "precious"


def test_a_replacement_that_died_between_renames_is_undone(tmp_path: Path) -> None:
    """The copy that was moved aside comes back."""
    root, data = stored(tmp_path, "cifar10")
    (root / data.name).rename(root / f".{data.name}.old")
    assert fetch.get(data, root, quiet).train_images == 15


DAMAGED: dict[str, Callable[[Path], object]] = {
    "sums": lambda folder: (folder / "SHA256SUMS").write_text("a" * 64 + "  data_batch_1.bin\n"),
    "no sums": lambda folder: (folder / "SHA256SUMS").unlink(),
    "no files": lambda folder: shutil.rmtree(folder / "files"),
    "values": lambda folder: (folder / "dataset.json").write_text(
        (folder / "dataset.json").read_text().replace('"train_images": 15', '"train_images": -1')
    ),
    "deep": lambda folder: (folder / "dataset.json").write_text("[" * 100_000),
    "no names": lambda folder: (folder / "dataset.json").write_text(
        json.dumps({**json.loads((folder / "dataset.json").read_text()), "class_names": []})
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damage_of_any_part_is_a_sentence_and_repaired_by_get(tmp_path: Path, case: str) -> None:
    """Whatever is damaged, verify and load name it, and getting the data set again repairs it."""
    root, data = stored(tmp_path, "cifar10")
    DAMAGED[case](root / data.name)
    with pytest.raises(DataError, match=f"scalednl data get {data.name}"):
        fetch.verify(data, root)
    with pytest.raises(DataError, match=f"scalednl data get {data.name}"):
        load_data(data.name, root)
    fetch.get(data, root, quiet, source=tmp_path / "source")
    fetch.verify(data, root)


@pytest.mark.parametrize("kind", ["cifar10", "tiny"])
def test_a_flipped_byte_is_found_and_named(tmp_path: Path, kind: str) -> None:
    """verify names the damaged file; getting it again repairs it."""
    root, data = stored(tmp_path, kind)
    victim = next(iter((root / data.name / "files").iterdir()))
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 0x10
    victim.write_bytes(content)
    with pytest.raises(DataError, match=f"damaged.*scalednl data get {data.name}") as caught:
        fetch.verify(data, root)
    assert victim.name in str(caught.value) or "JPEG" in str(caught.value)
    # Nor is it trained on: the arrays no longer belong to the files.
    with pytest.raises(DataError, match="damaged"):
        load_splits(root, data)
    fetch.get(data, root, quiet, source=tmp_path / "source")
    fetch.verify(data, root)


def test_a_file_without_a_sum_is_reported(tmp_path: Path) -> None:
    """A shortened list of sums is noticed, so that no training silently lacks images."""
    root, data = stored(tmp_path, "tiny")
    sums = root / data.name / "SHA256SUMS"
    lines = sums.read_text().splitlines(keepends=True)
    sums.write_text("".join(line for line in lines if "n00000001_2.JPEG" not in line))
    for use in (lambda: fetch.verify(data, root), lambda: load_data(data.name, root)):
        with pytest.raises(
            DataError, match=r"SHA256SUMS is damaged: .*n00000001_2\.JPEG is not in it"
        ):
            use()


def test_a_description_of_other_images_is_reported(tmp_path: Path) -> None:
    """verify and load compare the number of images with dataset.json."""
    root, data = stored(tmp_path, "cifar10")
    path = root / data.name / "dataset.json"
    path.write_text(path.read_text().replace('"train_images": 15', '"train_images": 14'))
    for use in (lambda: fetch.verify(data, root), lambda: load_data(data.name, root)):
        with pytest.raises(DataError, match=r"other images than its dataset\.json describes"):
            use()
