"""Files of archives and folders, read into memory without unpacking anything to disk.

Sizes are checked before a byte is read, against limits and against the size of the archive, so that
a hostile one cannot exhaust the memory. Of a folder, links that lead out are not followed.
"""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from scalednl.lab.data.errors import DataError

MAX_MEMBERS = 400_000
MAX_TOTAL = 2**31
"""Bytes of all needed files together; the largest real data set has 0.3 GB"""
MAX_GROWTH, SPARE = 20, 2**25
"""How many times its own size an archive may become, and bytes beside; images are compressed"""
MAX_HEADER = 2**20
"""Bytes of a header before a member"""
TOO_LARGE = (
    "is larger than any known data set (limit 2 GiB, or "
    f"{SPARE >> 20} MiB and {MAX_GROWTH} times the archive)"
)
COMPRESSIONS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}

LimitOf = Callable[[str], int | None]
"""For a path inside, the largest number of bytes it may have; None if it is not needed"""
Member = tuple[str, int, Callable[[], bytes]]
"""Path, size, and a function that reads the content"""

DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError),
    # zipfile and tarfile raise these if fields that they trust are damaged.
    *(ValueError, IndexError, KeyError, OverflowError, NotImplementedError, RuntimeError),
)


def read_members(source: Path, limit_of: LimitOf) -> Iterator[tuple[str, bytes]]:
    """Paths and contents of the needed files of an archive or folder, in their order there.

    Args:
        source: a .tar, .tar.gz, .tar.xz, .tar.bz2, .tgz, .zip, or a folder.
        limit_of: for a path inside, the largest number of bytes, or None if it is not needed.
    """
    if not source.exists():
        raise DataError(f"{source} does not exist")
    try:
        yield from _needed(source, limit_of)
    except DAMAGE as error:
        raise DataError(
            f"{source} is not a complete tar or zip archive ({error or type(error).__name__}): it "
            "is truncated, damaged or another kind of file; download it again"
        ) from error
    except OSError as error:
        where = error.filename or source
        raise DataError(f"{where} cannot be read: {error.strerror or error}") from error


def _needed(source: Path, limit_of: LimitOf) -> Iterator[tuple[str, bytes]]:
    """The needed files, refused before they are read if they are larger than they can be."""
    is_zip = source.is_file() and zipfile.is_zipfile(source)
    members = _folder_members if source.is_dir() else _zip_members if is_zip else _tar_members
    count = total = 0
    most = MAX_TOTAL if source.is_dir() else _largest(source)
    for name, size, read in members(source):
        limit = limit_of(name)
        if limit is None:
            continue
        count, total = count + 1, total + size
        if count > MAX_MEMBERS or total > MAX_TOTAL:
            raise DataError(f"{source} {TOO_LARGE}")
        if size > limit:
            raise DataError(
                f"{source}: {name} has {size:,} bytes, and at most {limit:,} are possible: it is "
                "another file with this name"
            )
        if total > most:
            raise DataError(f"{source} {TOO_LARGE}")
        content = read()
        if len(content) != size:
            raise EOFError(f"{name} does not have the size that the archive states")
        yield name, content


def _largest(archive: Path) -> int:
    """Bytes that the content of an archive may have."""
    return min(MAX_TOTAL, MAX_GROWTH * archive.stat().st_size + SPARE)


def _folder_members(folder: Path) -> Iterator[Member]:
    top = folder.resolve()
    for parent, folders, files in os.walk(folder, onerror=_raise):
        folders.sort()
        for path in (Path(parent, file) for file in sorted(files)):
            if path.is_file():
                name, size = path.relative_to(folder).as_posix(), path.stat().st_size
                yield name, size, partial(_read_inside, path, top)


def _raise(error: OSError) -> None:
    raise error


def _read_inside(path: Path, top: Path) -> bytes:
    if not path.resolve().is_relative_to(top):
        raise DataError(f"{path} is a link to outside of {top}: copy the file instead")
    return path.read_bytes()


def _zip_members(source: Path) -> Iterator[Member]:
    with zipfile.ZipFile(source) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                yield info.filename, info.file_size, partial(_read_zipped, archive, info)


def _read_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as file:
        return file.read(info.file_size + 1)


def _tar_members(source: Path) -> Iterator[Member]:
    with _open_tar(source) as file:
        yield from _members_inside(_Bounded(file, _largest(source)))


def _members_inside(file: "_Bounded") -> Iterator[Member]:
    with tarfile.open(fileobj=file, mode="r:") as archive:
        for member in archive:
            # tarfile keeps all members that it has seen.
            archive.members.clear()  # type: ignore[attr-defined]
            if member.size < 0 or member.issparse():
                raise tarfile.ReadError("a member is sparse or has a negative size")
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, member.size, partial(_read_member, file, content.read)


def _read_member(file: "_Bounded", read: Callable[[], bytes]) -> bytes:
    file.most = file.end
    try:
        return read()
    finally:
        file.most = MAX_HEADER


class _Bounded(io.BufferedIOBase):
    """A tar file of limited length: tarfile reads headers completely, whatever size they claim."""

    def __init__(self, file: io.BufferedIOBase, end: int) -> None:
        self._file, self.tell = file, file.tell  # type: ignore[method-assign]
        self.end, self.most = end, MAX_HEADER

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a byte, past the content of files that are not needed."""
        if offset > self.end:
            raise tarfile.ReadError(f"it {TOO_LARGE}")
        return self._file.seek(offset, whence)

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        if size is None or not 0 <= size <= self.most or self.tell() + size > self.end:
            raise tarfile.ReadError(f"it {TOO_LARGE}")
        return self._file.read(size)


def _open_tar(source: Path) -> io.BufferedIOBase:
    """The tar inside its compression, which the first bytes show."""
    with source.open("rb") as file:
        start = file.read(6)
    for magic, opener in COMPRESSIONS.items():
        if start.startswith(magic):
            return opener(source, "rb")
    return source.open("rb")
