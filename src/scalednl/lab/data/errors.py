"""Errors of the data room: what is wrong, in which file, and what to do."""

from contextlib import AbstractContextManager
from pathlib import Path

from scalednl.errors import CommandError
from scalednl.files import writing_to

LONGEST = 800


class DataError(CommandError):
    """A file that is not what it should be, or that cannot be downloaded.

    Sentences quote names from unchecked files, so control characters are replaced.
    """

    def __init__(self, sentence: str) -> None:
        clean = "".join(letter if letter.isprintable() else "?" for letter in sentence)
        super().__init__(clean if len(clean) <= LONGEST else f"{clean[:LONGEST]} ...")


class DiskError(DataError):
    """The folder of data sets cannot be used: another source would not help."""


def writing_data(root: Path) -> AbstractContextManager[None]:
    """Turn an OSError of writing below the folder of data sets into a `DiskError`."""
    return writing_to(root, "choose another folder with --root or SCALEDNL_DATA", DiskError)
