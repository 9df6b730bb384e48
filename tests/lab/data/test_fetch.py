"""Getting and verifying: complete or not at all, and a valid copy stays if a new one fails."""

import errno
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalednl.lab.data import fetch, store
from scalednl.lab.data.catalogue import TINY_IMAGENET
from scalednl.lab.data.errors import DataError
from scalednl.lab.data.load import load_splits
from tests.lab.data.builders import quiet, small_cifar, stored, tar, tiny_files, unpacked, zipped
from tests.support import tiny_disk


@pytest.mark.parametrize("kind", ["cifar10", "cifar100", "tiny"])
def test_what_is_stored_loads_and_verifies(tmp_path: Path, kind: str) -> None:
    """A stored set verifies, and its arrays are those of its files."""
    root, data = stored(tmp_path, kind)
    found = fetch.verify(data, root)
    splits = load_splits(root, data)
    assert (found.train_images, found.test_images) == (len(splits["train"]), len(splits["test"]))
    fresh = data.decode(store.read_files(root / data.name, data), root, lambda _: None).splits
    for name in ("train", "test"):
        assert np.array_equal(splits[name].images, fresh[name].images)
        assert np.array_equal(splits[name].labels, fresh[name].labels)
    assert isinstance(splits["train"].images, np.memmap)
    left = sorted(path.name for path in root.iterdir() if not path.name.endswith(".lock"))
    assert left == [data.name]


def test_a_bad_source_leaves_the_good_copy(tmp_path: Path) -> None:
    """A failed get changes nothing of what is stored."""
    root, data = stored(tmp_path, "cifar10")
    before = _snapshot(root / data.name)
    bad = tar(tmp_path / "bad.tar", {"data_batch_1.bin": b"x"})
    with pytest.raises(DataError):
        fetch.get(data, root, quiet, source=bad)
    assert _snapshot(root / data.name) == before


@pytest.mark.parametrize("step", ["write_files", "arrays"])
def test_a_get_that_dies_leaves_nothing_or_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """However far it got, an interrupted get changes nothing."""
    root, data = stored(tmp_path, "cifar10")
    before = _snapshot(root / data.name)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    target = (store, "write_record") if step == "write_files" else (fetch, "write_arrays")
    for name in (data.name, "other"):
        named = replace(data, facts=replace(data.facts, name=name))
        with monkeypatch.context() as patch:
            patch.setattr(*target, die)
            with pytest.raises(KeyboardInterrupt):
                fetch.get(named, root, quiet, source=tmp_path / "source")
    assert _snapshot(root / data.name) == before
    assert not (root / "other").exists()


def test_a_kill_in_the_middle_leaves_nothing_that_looks_complete(tmp_path: Path) -> None:
    """A get killed while it writes leaves no data set, and the next one succeeds."""
    files = tiny_files(classes=2)
    source = zipped(tmp_path / "tiny.zip", files)
    code = (
        "import os, pathlib\n"
        "from scalednl.lab.data import fetch, store\n"
        "from scalednl.lab.data.catalogue import TINY_IMAGENET\n"
        "store.write_text = lambda *_: os.kill(os.getpid(), 9)\n"
        f"fetch.get(TINY_IMAGENET, pathlib.Path({str(tmp_path / 'root')!r}), print, "
        f"source=pathlib.Path({str(source)!r}))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert run.returncode == -9, run.stderr
    with pytest.raises(DataError, match="is not in"):
        fetch.verify(TINY_IMAGENET, tmp_path / "root")
    fetch.get(TINY_IMAGENET, tmp_path / "root", quiet, source=source)
    fetch.verify(TINY_IMAGENET, tmp_path / "root")
    assert not (tmp_path / "root" / ".tiny-imagenet.getting").exists()


def test_a_full_disk_is_reported_and_keeps_the_stored_copy(tmp_path: Path) -> None:
    """On a disk too small for a second copy, the first one survives."""
    data, files = small_cifar(records=20)
    source = tar(tmp_path / "cifar.tar", files)
    with tiny_disk(tmp_path / "disk", "1m") as root:
        fetch.get(data, root, quiet, source=source)
        before = _snapshot(root / data.name)
        with pytest.raises(DataError, match=r"the disk of .* is full"):
            fetch.get(data, root, quiet, source=source)
        assert _snapshot(root / data.name) == before
        assert not list(root.glob("*.getting"))


def test_a_missing_permission_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root without write access is named, with what to do."""
    data, files = small_cifar()
    source = tar(tmp_path / "cifar.tar", files)

    # Root may write anywhere, so the refusal is the system call's answer to anybody else.
    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(
        DataError,
        match=r"cannot be written \(Permission denied\): choose another folder with --root",
    ):
        fetch.get(data, tmp_path / "root", quiet, source=source)


def test_a_smaller_copy_replaces_a_larger_one_only_by_force(tmp_path: Path) -> None:
    """A copy with three classes is not lost to one with one class."""
    root = tmp_path / "root"
    large = zipped(tmp_path / "large.zip", tiny_files(classes=3))
    small = zipped(tmp_path / "small.zip", tiny_files(classes=1))
    fetch.get(TINY_IMAGENET, root, quiet, source=large)
    with pytest.raises(DataError, match=r"has 9 .* and this copy has 3: add --force"):
        fetch.get(TINY_IMAGENET, root, quiet, source=small)
    assert fetch.verify(TINY_IMAGENET, root).train_images == 9
    assert fetch.get(TINY_IMAGENET, root, quiet, source=small, force=True).train_images == 3


def test_a_folder_is_a_source_too(tmp_path: Path) -> None:
    """An unpacked archive is read as it is."""
    data, files = small_cifar()
    folder = unpacked(tmp_path / "cifar-10-batches-bin", files)
    fetch.get(data, tmp_path / "root", quiet, source=folder)
    fetch.verify(data, tmp_path / "root")


def test_a_second_get_waits_for_the_first(tmp_path: Path) -> None:
    """It reports that it waits, and then finds the data set complete."""
    root, data = stored(tmp_path, "cifar10")
    sentences: list[str] = []
    found: list[int] = []

    def get() -> None:
        found.append(fetch.get(data, root, sentences.append).train_images)

    second = threading.Thread(target=get)
    with store.locked(root, data.name):
        second.start()
        deadline = time.monotonic() + 30
        while not sentences and time.monotonic() < deadline:
            time.sleep(0.01)
        assert sentences == ["waiting: another process is downloading cifar10"]
        assert not found
    second.join(60)
    assert found == [15]
    assert sentences[1].endswith("already contains it, complete and checked")


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
