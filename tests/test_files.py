"""Files that are complete or absent."""

import errno
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from scalednl.errors import CommandError, UsageError
from scalednl.files import (
    read_bytes,
    replacing,
    sha256_of,
    write_json,
    write_text,
    writing_to,
)


def test_a_file_is_replaced_when_all_is_written(tmp_path: Path) -> None:
    """Until then the old one stays; a block that fails leaves nothing else."""
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    with suppress(KeyError), replacing(path) as temporary:
        temporary.write_text("half")
        raise KeyError
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_are_the_usual_ones(tmp_path: Path, mask: int) -> None:
    """Those of the user's mask, whatever the writer set; the mask stays as it is."""
    before = os.umask(mask)
    try:
        with replacing(tmp_path / "a") as temporary:
            temporary.touch()
            temporary.chmod(0o700)
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~mask
        assert os.umask(mask) == mask
    finally:
        os.umask(before)


def test_json_is_strict_and_readable(tmp_path: Path) -> None:
    """NaN is an error and keeps the old file; other letters are written as they are."""
    path = tmp_path / "a.json"
    write_json(path, {"ä": [1.5, None]})
    assert json.loads(path.read_bytes()) == {"ä": [1.5, None]}
    assert "ä" in path.read_text(encoding="utf-8")
    assert path.read_text(encoding="utf-8").endswith("}\n")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, float("nan"))
    assert json.loads(path.read_bytes()) == {"ä": [1.5, None]}


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "the disk of out is full: free some space, or choose another folder"),
        (errno.EDQUOT, "the disk of out is full: free some space, or choose another folder"),
        (errno.EACCES, r"out cannot be written \(Permission denied\): choose another folder"),
    ],
)
def test_an_error_of_writing_is_a_sentence(number: int, said: str) -> None:
    """A full disk is told from a place where nobody may write; other errors pass."""
    with pytest.raises(CommandError, match=said), writing_to(Path("out")):
        raise OSError(number, os.strerror(number))
    with pytest.raises(UsageError, match="use -o"), writing_to(Path("out"), "use -o", UsageError):
        raise OSError(number, os.strerror(number))
    with pytest.raises(KeyError), writing_to(Path("out")):
        raise KeyError


def test_the_sum_is_sha256(tmp_path: Path) -> None:
    """That of no bytes is known."""
    (tmp_path / "a").touch()
    assert sha256_of(tmp_path / "a").startswith("e3b0c44298fc1c149afbf4c8996fb924")


@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "folder", "nul", "large", "link"])
def test_only_regular_files_of_a_folder_are_read(tmp_path: Path, kind: str) -> None:
    """All else is refused at once in a sentence; links inside the folder are followed."""
    folder, path = tmp_path / "folder", tmp_path / "folder" / "file"
    folder.mkdir()
    (tmp_path / "outside").write_bytes(b"secret")
    (folder / "inside").write_bytes(b"12345")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "nul":
        path = folder / "a\0b"
    elif kind == "large":
        path.write_bytes(b"123456")
    else:
        path.symlink_to({"device": "/dev/zero", "loop": "file", "link": "../outside"}[kind])
    with pytest.raises(CommandError) as caught:
        read_bytes(path, 5, top=folder)
    assert "secret" not in str(caught.value)
    (folder / "other").symlink_to("inside")
    (tmp_path / "linked").symlink_to(folder)
    assert read_bytes(tmp_path / "linked" / "other", 5, top=tmp_path / "linked") == b"12345"
    with pytest.raises(FileNotFoundError):
        read_bytes(folder / "missing", 5, top=folder)
