"""Files of archives and folders, read into memory without unpacking anything to disk.

Sizes are checked before a byte is read, so that a hostile archive cannot exhaust the memory.
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
from pathlib import Path
from typing import Any

from scalednl.lab.data.errors import DataError

MAX_MEMBERS = 400_000
MAX_TOTAL = 2**31
"""Bytes of all members of an archive together; the largest real one has 0.3 GB"""
MAX_READ = 2**28
"""Bytes of a member, or of a header before one"""
COMPRESSIONS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}

LimitOf = Callable[[str], int | None]
"""For a path inside, the largest number of bytes it may have; None if it is not needed"""

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
        if source.is_dir():
            yield from _folder_members(source, limit_of)
        elif zipfile.is_zipfile(source):
            yield from _zip_members(source, limit_of)
        else:
            yield from _tar_members(source, limit_of)
    except DAMAGE as error:
        raise DataError(
            f"{source} is not a complete tar or zip archive ({error or type(error).__name__}): it "
            "is truncated, damaged or another kind of file; download it again"
        ) from error
    except OSError as error:
        where = error.filename or source
        raise DataError(f"{where} cannot be read: {error.strerror or error}") from error


class _Budget:
    """Counts members and bytes of a source and refuses what no data set needs."""

    def __init__(self, source: Path) -> None:
        self._source, self._members, self._bytes = source, 0, 0

    def add(self, size: int) -> None:
        """One more member of this size."""
        self._members, self._bytes = self._members + 1, self._bytes + size
        if self._members > MAX_MEMBERS or self._bytes > MAX_TOTAL:
            raise DataError(
                f"{self._source} is larger than any known data set (limit {MAX_TOTAL >> 30} GiB in "
                f"{MAX_MEMBERS:,} files)"
            )

    def check(self, name: str, size: int, limit: int) -> None:
        """Refuse a file that is larger than it can be."""
        if size > limit:
            raise DataError(
                f"{self._source}: {name} has {size:,} bytes, and at most {limit:,} are possible: "
                "it is another file with this name"
            )


def _folder_members(folder: Path, limit_of: LimitOf) -> Iterator[tuple[str, bytes]]:
    budget, top = _Budget(folder), folder.resolve()
    for parent, folders, files in os.walk(folder, onerror=_raise):
        folders.sort()
        for path in (Path(parent, file) for file in sorted(files)):
            name = path.relative_to(folder).as_posix()
            limit = limit_of(name) if path.is_file() else None
            if limit is None:
                continue
            if not path.resolve().is_relative_to(top):
                raise DataError(f"{path} is a link to outside of {folder}: copy the file instead")
            size = path.stat().st_size
            budget.check(name, size, limit)
            budget.add(size)
            yield name, path.read_bytes()


def _raise(error: OSError) -> None:
    raise error


def _zip_members(source: Path, limit_of: LimitOf) -> Iterator[tuple[str, bytes]]:
    budget = _Budget(source)
    with zipfile.ZipFile(source) as archive:
        for info in archive.infolist():
            budget.add(info.file_size)
            limit = None if info.is_dir() else limit_of(info.filename)
            if limit is None:
                continue
            budget.check(info.filename, info.file_size, limit)
            with archive.open(info) as file:
                yield info.filename, _read(file, info.file_size)


def _tar_members(source: Path, limit_of: LimitOf) -> Iterator[tuple[str, bytes]]:
    budget = _Budget(source)
    with _open_tar(source) as file, tarfile.open(fileobj=_Bounded(file), mode="r:") as archive:
        for member in archive:
            # tarfile keeps all members that it has seen.
            archive.members.clear()  # type: ignore[attr-defined]
            if member.size < 0 or member.issparse():
                raise tarfile.ReadError("a member is sparse or has a negative size")
            budget.add(member.size)
            limit = limit_of(member.name) if member.isreg() else None
            if limit is None:
                continue
            budget.check(member.name, member.size, limit)
            content = archive.extractfile(member)
            assert content is not None
            yield member.name, _read(content, member.size)


def _read(file: Any, size: int) -> bytes:
    content = file.read(size)
    if len(content) != size or file.read(1):
        raise EOFError("a member does not have the size that the archive states")
    return content


class _Bounded(io.BufferedIOBase):
    """A tar file of limited length: tarfile reads headers completely, whatever size they claim."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._file, self._left = file, 2 * MAX_TOTAL
        self.seek, self.tell = file.seek, file.tell  # type: ignore[method-assign]

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        if size is None or not 0 <= size <= min(MAX_READ, self._left):
            raise tarfile.ReadError(f"a header or member claims {size} bytes")
        self._left -= size
        return self._file.read(size)


def _open_tar(source: Path) -> io.BufferedIOBase:
    """The tar inside its compression, which the first bytes show."""
    with source.open("rb") as file:
        start = file.read(6)
    for magic, opener in COMPRESSIONS.items():
        if start.startswith(magic):
            return opener(source, "rb")
    return source.open("rb")
