"""Errors of the data room: what is wrong, in which file, and what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalednl.errors import CommandError


class DataError(CommandError):
    """A file that is not what it should be, or that could not be had."""


@contextmanager
def explaining_disk_errors(folder: Path) -> Iterator[None]:
    """Turn what the disk says about writing into `folder` into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise DataError(
                f"the disk of {folder} is full: free some space, or choose another folder with "
                "--root or SCALEDNL_DATA; what was there before is untouched"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise DataError(
                f"{error.filename or folder} may not be written: choose another folder with --root "
                "or SCALEDNL_DATA"
            ) from error
        where = error.filename or folder
        raise DataError(f"{where} could not be used: {error.strerror or error}") from error
