"""Archives and folders: truncated, hostile and lying ones are refused in one sentence."""

import io
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from scalednl.lab.data import archives
from scalednl.lab.data.archives import read_members
from scalednl.lab.data.catalogue import TINY_IMAGENET
from scalednl.lab.data.errors import DataError
from tests.lab.data.builders import small_cifar, tar, tiny_files, unpacked, zipped


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar.xz", ".tar", ".zip"])
def test_a_truncated_archive_is_named(tmp_path: Path, suffix: str) -> None:
    """An archive that ends too early, wherever, is refused with its name."""
    data, files = small_cifar()
    complete = tmp_path / f"complete{suffix}"
    make = zipped if suffix == ".zip" else tar
    content = make(complete, files).read_bytes()
    for share in (0.0, 0.01, 0.5, 0.75):
        source = tmp_path / f"cut{suffix}"
        source.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(DataError, match=str(source)):
            data.read_source(source)


def _tar_with(path: Path, info: tarfile.TarInfo, content: bytes = b"") -> Path:
    info.size = len(content)
    with tarfile.open(path, "w") as archive:
        archive.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize("name", ["../data.bin", "/etc/data.bin", "a/../../data.bin"])
def test_paths_in_archives_are_names_only(tmp_path: Path, name: str) -> None:
    """Nothing is unpacked to disk, so a path out of the folder is read like any other."""
    _tar_with(tmp_path / "a.tar", tarfile.TarInfo(name), b"x")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(name, "x")
    before = sorted(tmp_path.parent.rglob("*"))
    for source in ("a.tar", "a.zip"):
        assert dict(read_members(tmp_path / source, lambda _: 10)) == {name: b"x"}
    assert sorted(tmp_path.parent.rglob("*")) == before


def test_links_in_archives_are_ignored(tmp_path: Path) -> None:
    """A symbolic or hard link has no content of its own."""
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        link = tarfile.TarInfo("folder/data_batch_1.bin")
        link.type, link.linkname = kind, "/etc/hostname"
        assert not list(read_members(_tar_with(tmp_path / "a.tar", link), lambda _: 10))


def test_links_out_of_a_folder_are_refused(tmp_path: Path) -> None:
    """A file that a link brings in from elsewhere is not read, and its content is not quoted."""
    secret = tmp_path / "secret"
    secret.write_text("password\tn00000000")
    folder = unpacked(tmp_path / "tiny", tiny_files())
    annotations = folder / "val" / "val_annotations.txt"
    annotations.unlink()
    annotations.symlink_to(secret)
    with pytest.raises(DataError, match="is a link to outside of") as caught:
        TINY_IMAGENET.read_source(folder)
    assert "password" not in str(caught.value)
    annotations.unlink()
    (folder / "words.txt").rename(folder / "names")
    (folder / "words.txt").symlink_to(folder / "names")
    (tmp_path / "link").symlink_to(folder)
    assert "words.txt" in TINY_IMAGENET.read_source(tmp_path / "link")


def test_linked_folders_are_not_followed(tmp_path: Path) -> None:
    """A link to a folder, its own parent even, does not lead out of the source or round in it."""
    folder = unpacked(tmp_path / "data", {"a/file": b"x"})
    (folder / "a" / "loop").symlink_to(folder)
    (folder / "out").symlink_to(tmp_path)
    assert dict(read_members(folder, lambda _: 10)) == {"a/file": b"x"}


def test_bombs_are_refused_from_their_headers(tmp_path: Path) -> None:
    """Archives that claim too much are refused from their headers."""
    bomb = tarfile.TarInfo("folder/zeros")
    with tarfile.open(tmp_path / "bomb.tar", "w") as archive:
        bomb.size = 0
        archive.addfile(bomb)
    content = bytearray((tmp_path / "bomb.tar").read_bytes())
    bomb.size = 10**13
    content[:512] = bomb.tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "bomb.tar").write_bytes(content)
    with pytest.raises(DataError, match=r"larger than any known data set \(limit 2 GiB"):
        list(read_members(tmp_path / "bomb.tar", lambda _: 10))
    content[:512] = _long_header(10**13)
    (tmp_path / "header.tar").write_bytes(content)
    with pytest.raises(DataError, match="is larger than any known data set"):
        list(read_members(tmp_path / "header.tar", lambda _: 10))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as pack:
        pack.writestr("tiny/wnids.txt", bytes(64 * 2**20))
    tracemalloc.start()
    with pytest.raises(DataError, match="at most"):
        TINY_IMAGENET.read_source(tmp_path / "bomb.zip")
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def _long_header(size: int) -> bytes:
    """The header of an extended header of a given size, which tarfile would read completely."""
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, size
    return header.tobuf(tarfile.GNU_FORMAT)


def _write_header(path: Path, header: bytearray, before: bytes = b"") -> None:
    checksum = 256 + sum(header[:148]) + sum(header[156:512])
    header[148:156] = f"{checksum:06o}\0 ".encode()
    path.write_bytes(before + bytes(header) + bytes(1024))


def test_a_negative_size_does_not_go_round_in_circles(tmp_path: Path) -> None:
    """A member that leads back to itself is refused."""
    first, second = tarfile.TarInfo("a"), tarfile.TarInfo("b")
    header = bytearray(second.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (256**12 - 512).to_bytes(12, "big")
    _write_header(tmp_path / "a.tar", header, before=first.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(DataError, match="negative size"):
        list(read_members(tmp_path / "a.tar", lambda _: 10))


def test_a_sparse_member_is_refused(tmp_path: Path) -> None:
    """A member whose size exists in its header only is not read."""
    member = tarfile.TarInfo("data")
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[483:495] = f"{10**6:011o}\0".encode()
    _write_header(tmp_path / "a.tar", header)
    with pytest.raises(DataError, match="sparse"):
        list(read_members(tmp_path / "a.tar", lambda _: 10**9))


def test_an_archive_larger_than_any_data_set_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Total size and number of files are limited, of zips, tars and folders alike."""
    files = {f"file{number}": bytes(10_000) for number in range(5)}
    sources = (
        tar(tmp_path / "a.tar.gz", files),
        zipped(tmp_path / "a.zip", files),
        unpacked(tmp_path / "folder", files),
    )
    for name, limit in (("MAX_TOTAL", 40_000), ("MAX_MEMBERS", 4)):
        with monkeypatch.context() as patch:
            patch.setattr(archives, name, limit)
            for source in sources:
                with pytest.raises(DataError, match="is larger than any known data set"):
                    list(read_members(source, lambda _: 10_000))
    for source in sources:
        assert len(list(read_members(source, lambda _: 10_000))) == 5
