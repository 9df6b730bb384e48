"""Sentences of errors are safe to print, and name what to do."""

import errno
from pathlib import Path

import pytest

from scalednl.lab.data.errors import DataError, DiskError, writing_data


def test_sentences_are_short_and_printable() -> None:
    """Control characters from names in files do not reach a terminal, and long names are cut."""
    sentence = str(DataError("file \x1b[2J\n" + "m" * 100_000))
    assert sentence.isprintable()
    assert sentence.startswith("file ?[2J?m")
    assert len(sentence) < 1000


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "the disk of root is full: free some space, or choose another folder"),
        (errno.EACCES, r"root cannot be written \(no\): choose another folder with --root"),
    ],
)
def test_errors_of_the_disk_name_the_folder(number: int, sentence: str) -> None:
    """Whatever file failed, the sentence says which folder of data sets cannot be used."""
    with pytest.raises(DiskError, match=sentence), writing_data(Path("root")):
        raise OSError(number, "no")
