"""Getting, keeping and verifying: whole or not at all, and what was good before stays."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalednl.lab.data import arrays, fetch, load_data, store
from scalednl.lab.data.arrays import StaleError, load_splits, open_arrays
from scalednl.lab.data.catalogue import TINY_INFO, DataInfo
from scalednl.lab.data.errors import DataError
from tests.lab.data.builders import small_cifar, tar, tiny_files, unpacked, zipped
from tests.support import tiny_disk


def _quiet(_: str) -> None:
    pass


def _stored(tmp_path: Path, kind: str) -> tuple[Path, DataInfo]:
    """A small data set, got into a root."""
    root = tmp_path / "root"
    if kind == "tiny":
        info, source = TINY_INFO, zipped(tmp_path / "tiny.zip", tiny_files())
    else:
        info, files = small_cifar(coarse=kind == "cifar100")
        source = tar(tmp_path / "cifar.tar.gz", files)
    fetch.get(info, root, _quiet, source=source)
    return root, info


@pytest.mark.parametrize("kind", ["cifar10", "cifar100", "tiny"])
def test_what_was_got_loads_and_verifies(tmp_path: Path, kind: str) -> None:
    """A stored set verifies, and its arrays are those of its files."""
    root, info = _stored(tmp_path, kind)
    found = fetch.verify(info, root)
    splits = load_splits(root, info)
    assert (found.train_images, found.test_images) == (len(splits["train"]), len(splits["test"]))
    fresh = arrays._decode(root / info.name, info, "again")
    for name in ("train", "test"):
        assert np.array_equal(splits[name].images, fresh[name].images)
        assert np.array_equal(splits[name].labels, fresh[name].labels)
    assert isinstance(splits["train"].images, np.memmap)
    left = sorted(path.name for path in root.iterdir() if not path.name.endswith(".lock"))
    assert left == [info.name]


@pytest.mark.parametrize("kind", ["cifar10", "tiny"])
def test_a_flipped_byte_is_found_and_named(tmp_path: Path, kind: str) -> None:
    """verify names the damaged file; getting it again mends it."""
    root, info = _stored(tmp_path, kind)
    victim = next(iter((root / info.name / "files").iterdir()))
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 0x10
    victim.write_bytes(content)
    with pytest.raises(DataError, match=f"damaged.*scalednl data get {info.name}") as caught:
        fetch.verify(info, root)
    assert victim.name in str(caught.value) or "JPEG" in str(caught.value)
    # Nor is it trained on: the arrays no longer belong to the files.
    with pytest.raises(DataError, match="damaged"):
        load_splits(root, info)
    source = tmp_path / ("tiny.zip" if kind == "tiny" else "cifar.tar.gz")
    fetch.get(info, root, _quiet, source=source)
    fetch.verify(info, root)


def test_lost_files_and_descriptions_are_named(tmp_path: Path) -> None:
    """A missing file, a damaged description and an empty list of sums each get their sentence."""
    root, info = _stored(tmp_path, "cifar10")
    folder = root / info.name
    (folder / "files" / "test_batch.bin").rename(tmp_path / "kept")
    with pytest.raises(DataError, match=r"has lost test_batch\.bin"):
        fetch.verify(info, root)
    (tmp_path / "kept").rename(folder / "files" / "test_batch.bin")
    for name, said in (("SHA256SUMS", "is empty"), ("dataset.json", "is damaged")):
        good = (folder / name).read_bytes()
        (folder / name).write_bytes(b"")
        with pytest.raises(DataError, match=said):
            fetch.verify(info, root)
        (folder / name).write_bytes(good)
    values = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps({**values, "schema": 99}))
    with pytest.raises(DataError, match="schema 99"):
        fetch.verify(info, root)


def test_what_is_not_there_says_which_command(tmp_path: Path) -> None:
    """Loading before getting names the command."""
    with pytest.raises(DataError, match="run `scalednl data get cifar10`"):
        store.describe(tmp_path / "cifar10", "cifar10")


def test_a_bad_source_leaves_the_good_copy(tmp_path: Path) -> None:
    """A failed get changes nothing of what is stored."""
    root, info = _stored(tmp_path, "cifar10")
    before = _snapshot(root / info.name)
    bad = tar(tmp_path / "bad.tar", {"data_batch_1.bin": b"x"})
    with pytest.raises(DataError):
        fetch.get(info, root, _quiet, source=bad)
    assert _snapshot(root / info.name) == before


@pytest.mark.parametrize("step", ["write_files", "arrays"])
def test_a_get_that_dies_leaves_nothing_or_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """However far it came, a get without an end is as if it had never begun."""
    root, info = _stored(tmp_path, "cifar10")
    before = _snapshot(root / info.name)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    target = (store, "write_json") if step == "write_files" else (fetch, "write_arrays")
    for name in (info.name, "other"):
        with monkeypatch.context() as patch:
            patch.setattr(*target, die)
            with pytest.raises(KeyboardInterrupt):
                fetch.get(replace(info, name=name), root, _quiet, source=tmp_path / "cifar.tar.gz")
    assert _snapshot(root / info.name) == before
    assert not (root / "other").exists()


def test_a_replacement_that_died_between_renames_is_undone(tmp_path: Path) -> None:
    """The copy that was moved aside comes back."""
    root, info = _stored(tmp_path, "cifar10")
    (root / info.name).rename(root / f".{info.name}.old")
    assert fetch.get(info, root, _quiet).train_images == 15


def test_a_kill_in_the_middle_leaves_nothing_that_looks_complete(tmp_path: Path) -> None:
    """A get killed while it writes leaves no data set, and the next one succeeds."""
    files = tiny_files(classes=2)
    source = zipped(tmp_path / "tiny.zip", files)
    code = (
        "import os, pathlib, scalednl.lab.data.store as store\n"
        "from scalednl.lab.data import fetch\n"
        "from scalednl.lab.data.catalogue import TINY_INFO\n"
        "real = store.write_pack\n"
        "def kill(files, path):\n"
        "    real(files, path)\n"
        "    os.kill(os.getpid(), 9)\n"
        "store.write_pack = kill\n"
        f"fetch.get(TINY_INFO, pathlib.Path({str(tmp_path / 'root')!r}), print, "
        f"source=pathlib.Path({str(source)!r}))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert run.returncode == -9, run.stderr
    with pytest.raises(DataError, match="is not in"):
        fetch.verify(TINY_INFO, tmp_path / "root")
    fetch.get(TINY_INFO, tmp_path / "root", _quiet, source=source)
    fetch.verify(TINY_INFO, tmp_path / "root")
    assert not (tmp_path / "root" / ".tiny-imagenet.getting").exists()


def test_a_full_disk_is_said_and_keeps_what_was_there(tmp_path: Path) -> None:
    """On a disk too small for a second copy, the first one survives."""
    info, files = small_cifar(records=20)
    source = tar(tmp_path / "cifar.tar", files)
    with tiny_disk(tmp_path / "disk", "1m") as root:
        fetch.get(info, root, _quiet, source=source)
        before = _snapshot(root / info.name)
        with pytest.raises(DataError, match=r"the disk of .* is full"):
            fetch.get(info, root, _quiet, source=source)
        assert _snapshot(root / info.name) == before
        assert not list(root.glob("*.getting"))


def test_no_permission_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root that may not be written is named, with what to do."""
    info, files = small_cifar()
    source = tar(tmp_path / "cifar.tar", files)

    # Root may write anywhere, so the refusal is the system call's answer to anybody else.
    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(DataError, match="may not be written: choose another folder with --root"):
        fetch.get(info, tmp_path / "root", _quiet, source=source)


def _damage(folder: Path) -> None:
    path = folder / "arrays" / "train_images.npy"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def _touch(folder: Path) -> None:
    path = next((folder / "files").iterdir())
    os.utime(path, ns=(1, 1))


STALE = {
    "damaged": (_damage, r"train_images\.npy is damaged"),
    "cut off": (
        lambda f: (f / "arrays" / "test_labels.npy").write_bytes(b"\x93NUMPY"),
        "cannot be opened",
    ),
    "missing": (lambda f: shutil.rmtree(f / "arrays"), "not there"),
    "header": (lambda f: (f / "arrays" / "arrays.json").write_text("{"), "arrays.json is damaged"),
    "stale": (_touch, "have changed"),
}


@pytest.mark.parametrize("case", STALE)
def test_bad_arrays_are_noticed_and_made_again(tmp_path: Path, case: str) -> None:
    """A damaged, missing or stale cache is decoded again, to the same pixels."""
    root, info = _stored(tmp_path, "cifar10")
    good = load_splits(root, info)["train"].images.copy()
    change, said = STALE[case]
    change(root / info.name)
    with pytest.raises(StaleError, match=said):
        open_arrays(root / info.name)
    assert np.array_equal(load_splits(root, info)["train"].images, good)
    assert np.array_equal(open_arrays(root / info.name)["train"].images, good)


def test_arrays_that_cannot_be_kept_are_decoded_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that may only be read, loading warns and works."""
    root, info = _stored(tmp_path, "cifar10")
    shutil.rmtree(root / info.name / "arrays")

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(root))

    monkeypatch.setattr(arrays, "write_arrays", refuse)
    with pytest.warns(UserWarning, match="not kept"):
        assert len(load_splits(root, info)["train"]) == 15


def test_two_processes_that_build_at_once_agree(tmp_path: Path) -> None:
    """Four processes that find no cache all load the same pixels, and leave a sound one."""
    root, info = _stored(tmp_path, "tiny")
    shutil.rmtree(root / info.name / "arrays")
    code = (
        "import hashlib\n"
        "from scalednl.lab.data import load_data\n"
        f"data = load_data('tiny-imagenet', {str(root)!r})\n"
        "print(hashlib.sha256(data.train.images.tobytes()).hexdigest())\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(4)
    ]
    answers = {process.communicate(timeout=60)[0] for process in processes}
    assert [process.returncode for process in processes] == [0] * 4
    assert len(answers) == 1
    open_arrays(root / info.name)


def test_what_is_not_ours_is_never_replaced(tmp_path: Path) -> None:
    """A folder, a file or a link of somebody else under the name stays as it is."""
    info, files = small_cifar()
    source = tar(tmp_path / "cifar.tar", files)
    mine = tmp_path / "mine" / info.name / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("precious")
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / info.name).write_text("precious")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / info.name).symlink_to(mine.parent)
    for root in ("mine", "file", "link"):
        with pytest.raises(DataError, match="something else than a data set of ours"):
            fetch.get(info, tmp_path / root, _quiet, source=source)
    assert mine.read_text() == "precious"
    assert (tmp_path / "file" / info.name).read_text() == "precious"


def test_a_smaller_copy_replaces_a_larger_one_only_by_force(tmp_path: Path) -> None:
    """Twenty classes are not lost to two."""
    root = tmp_path / "root"
    large = zipped(tmp_path / "large.zip", tiny_files(classes=3))
    small = zipped(tmp_path / "small.zip", tiny_files(classes=1))
    fetch.get(TINY_INFO, root, _quiet, source=large)
    with pytest.raises(DataError, match=r"holds 9 .* and this copy has 3: add --force"):
        fetch.get(TINY_INFO, root, _quiet, source=small)
    assert fetch.verify(TINY_INFO, root).train_images == 9
    assert fetch.get(TINY_INFO, root, _quiet, source=small, force=True).train_images == 3


def test_verify_counts(tmp_path: Path) -> None:
    """Images that vanished from the list of sums are missed, and never silently trained without."""
    root, info = _stored(tmp_path, "tiny")
    sums = root / info.name / "SHA256SUMS"
    lines = sums.read_text().splitlines(keepends=True)
    sums.write_text("".join(line for line in lines if "n00000001_2.JPEG" not in line))
    for use in (lambda: fetch.verify(info, root), lambda: load_data(info.name, root)):
        with pytest.raises(DataError, match=r"other images than its dataset\.json says"):
            use()


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
def test_damage_of_any_part_is_a_sentence_and_mended_by_get(tmp_path: Path, case: str) -> None:
    """Whatever is damaged, verify and load name it, and getting the set again mends it."""
    root, info = _stored(tmp_path, "cifar10")
    DAMAGED[case](root / info.name)
    with pytest.raises(DataError, match=f"scalednl data get {info.name}"):
        fetch.verify(info, root)
    with pytest.raises(DataError, match=f"scalednl data get {info.name}"):
        load_data(info.name, root)
    fetch.get(info, root, _quiet, source=tmp_path / "cifar.tar.gz")
    fetch.verify(info, root)


def test_a_folder_is_a_source_too(tmp_path: Path) -> None:
    """What people have unpacked is taken as it is."""
    info, files = small_cifar()
    folder = unpacked(tmp_path / "cifar-10-batches-bin", files)
    fetch.get(info, tmp_path / "root", _quiet, source=folder)
    fetch.verify(info, tmp_path / "root")


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
