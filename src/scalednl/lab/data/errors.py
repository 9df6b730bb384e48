"""Errors of the data room: what is wrong, in which file, and what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalednl.errors import CommandError

LONGEST = 800
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


class DataError(CommandError):
    """A file that is not what it should be, or that could not be had.

    Names in it come from files that nobody has checked, so what a terminal would obey is taken out.
    """

    def __init__(self, sentence: str) -> None:
        clean = "".join(letter if letter.isprintable() else "?" for letter in sentence)
        super().__init__(clean if len(clean) <= LONGEST else f"{clean[:LONGEST]} ...")


class DiskError(DataError):
    """The place where data sets are kept cannot be used: no other source would help."""


@contextmanager
def explaining_disk_errors(folder: Path) -> Iterator[None]:
    """Turn what the disk says about writing into `folder` into a sentence."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        if error.errno in FULL:
            raise DiskError(
                f"the disk of {folder} is full: free some space, or choose another folder with "
                "--root or SCALEDNL_DATA; what was there before is untouched"
            ) from error
        if error.errno in FORBIDDEN:
            raise DiskError(
                f"{where} may not be written: choose another folder with --root or SCALEDNL_DATA"
            ) from error
        if error.errno in (errno.EEXIST, errno.ENOTDIR):
            raise DiskError(
                f"{where} is not a folder: choose another one with --root or SCALEDNL_DATA"
            ) from error
        raise DiskError(f"{where} could not be used: {error.strerror or error}") from error
