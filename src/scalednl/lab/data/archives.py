"""Archives and folders read without unpacking: nothing is written where a name points to.

Every name and size is checked before a byte is taken, so a hostile archive costs a sentence and
not a disk.
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
from pathlib import Path, PurePosixPath
from typing import Any

from scalednl.lab.data.errors import DataError

MAX_MEMBERS = 400_000
MAX_TOTAL = 2**30
"""Bytes that all members of an archive may claim together; the largest real one has 0.3 GB"""
MAX_HEADER = 2**20
"""Bytes of a header that stands before a member; real ones have a few hundred"""
COMPRESSIONS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}
AGAIN = "get the archive again"

LimitOf = Callable[[str], int | None]
"""For a path inside, the most bytes it may have; None if it is not wanted"""

BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)
# zipfile and tarfile answer these to damage in fields that they trust.
TRUSTING = (ValueError, IndexError, KeyError, OverflowError, NotImplementedError, RuntimeError)


def read_members(source: Path, limit_of: LimitOf) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the wanted files of an archive or folder, in the order they lie there.

    Args:
        source: a .tar, .tar.gz, .tar.xz, .tar.bz2, .tgz, .zip, or a folder.
        limit_of: for a file's path inside, the most bytes it may have, or None if it is not wanted.
    """
    if not source.exists():
        raise DataError(f"{source} is not there")
    if source.is_dir():
        yield from _folder_members(source, limit_of)
        return
    try:
        members = _zip_members if zipfile.is_zipfile(source) else _tar_members
        yield from members(source, limit_of)
    except BROKEN as error:
        raise DataError(
            f"{source} is no whole tar or zip archive ({_said(error)}): it is cut off, damaged, or "
            "another file under this name; get it again"
        ) from error
    except TRUSTING as error:
        raise DataError(f"{source} is not a sound archive ({_said(error)}): {AGAIN}") from error
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror or error}") from error


def _folder_members(folder: Path, limit_of: LimitOf) -> Iterator[tuple[str, bytes]]:
    count = total = 0
    try:
        for top, folders, files in os.walk(folder, onerror=_raise, followlinks=True):
            folders.sort()
            for file in sorted(files):
                path = Path(top, file)
                name = path.relative_to(folder).as_posix()
                limit = limit_of(name)
                if limit is None:
                    continue
                _check_name(folder, name)
                size = path.stat().st_size
                _check_size(folder, name, size, limit)
                count, total = count + 1, total + size
                _check_total(folder, count, total)
                yield name, path.read_bytes()
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error


def _raise(error: OSError) -> None:
    raise error


def _zip_members(source: Path, limit_of: LimitOf) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(source) as archive:
        infos = archive.infolist()
        _check_total(source, len(infos), sum(info.file_size for info in infos))
        for info in infos:
            _check_name(source, info.filename)
        for info in infos:
            limit = None if info.is_dir() else limit_of(info.filename)
            if limit is None:
                continue
            _check_size(source, info.filename, info.file_size, limit)
            with archive.open(info) as file:
                yield info.filename, _read(file.read, source, info.filename, info.file_size)


def _tar_members(source: Path, limit_of: LimitOf) -> Iterator[tuple[str, bytes]]:
    count = total = 0
    with _opened(source) as file, tarfile.open(fileobj=_Bounded(file), mode="r:") as archive:
        bounded = archive.fileobj
        assert isinstance(bounded, _Bounded)
        for member in archive:
            if member.size < 0:
                raise tarfile.ReadError("a member has a negative size")
            count, total = count + 1, total + member.size
            # tarfile keeps what it has seen, headers of any length too.
            archive.members.clear()  # type: ignore[attr-defined]
            _check_total(source, count, total)
            _check_name(source, member.name)
            if member.issym() or member.islnk():
                _check_link(source, member)
                continue
            limit = limit_of(member.name) if member.isreg() else None
            if limit is None:
                continue
            _check_size(source, member.name, member.size, limit)
            content = archive.extractfile(member)
            assert content is not None
            bounded.largest = max(MAX_HEADER, limit)
            yield member.name, _read(content.read, source, member.name, member.size)
            bounded.largest = MAX_HEADER


class _Bounded(io.BufferedIOBase):
    """A file whose headers are short, and which is read no further than a real one is long.

    A tar's extended headers are read whole, whatever size they claim, and count for no member.
    """

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._file, self._left = file, 2 * MAX_TOTAL
        self.largest = MAX_HEADER

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a byte."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Where the next byte is."""
        return self._file.tell()

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        if size is None or not 0 <= size <= self.largest:
            raise tarfile.ReadError(f"a header claims {size} bytes")
        self._left -= size
        if self._left < 0:
            raise tarfile.ReadError("it goes on and on")
        return self._file.read(size)


def _opened(source: Path) -> io.BufferedIOBase:
    """The tar inside its compression, told by its first bytes."""
    with source.open("rb") as file:
        start = file.read(6)
    for magic, opener in COMPRESSIONS.items():
        if start.startswith(magic):
            return opener(source, "rb")
    return source.open("rb")


def _read(read: Callable[[int], bytes], source: Path, name: str, size: int) -> bytes:
    content = read(size)
    if len(content) != size or read(1):
        raise DataError(f"{source}: {name} is not as long as the archive says; {AGAIN}")
    return content


def _check_name(source: Path, name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    drive = bool(path.parts) and path.parts[0].endswith(":")
    if not name.isprintable():
        raise DataError(f"{source} holds {name!r}, which no honest copy does; do not use it")
    if path.is_absolute() or drive or ".." in path.parts:
        raise DataError(
            f"{source} holds {name!r}, a path out of its folder: no honest copy does; do not use it"
        )


def _check_link(source: Path, member: tarfile.TarInfo) -> None:
    target = PurePosixPath(member.linkname)
    depth = 0 if member.islnk() else len(PurePosixPath(member.name).parts) - 1
    for part in target.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            break
    if target.is_absolute() or depth < 0:
        raise DataError(
            f"{source} holds {member.name!r}, a link to {member.linkname!r} out of its folder: no "
            "honest copy does; do not use it"
        )


def _check_total(source: Path, members: int, total: int) -> None:
    if members > MAX_MEMBERS or total > MAX_TOTAL:
        raise DataError(
            f"{source} would unpack to {total / 2**30:.1f} GiB in {members:,} files, far more than "
            "any of the data sets: do not use it"
        )


def _check_size(source: Path, name: str, size: int, limit: int) -> None:
    if size > limit:
        raise DataError(
            f"{source}: {name} has {size:,} bytes where at most {limit:,} are right; it is another "
            "file under this name"
        )


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
