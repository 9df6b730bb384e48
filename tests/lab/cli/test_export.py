"""`scalednl export` as a person meets it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.attention.builders import made_run
from tests.lab.cli.conftest import Refused
from tests.support import run_scalednl


def test_a_run_is_exported_and_checked(tmp_path: Path) -> None:
    """A run directory is enough; the file is written after it agreed at five sizes."""
    run = made_run(tmp_path / "run", blocks=1)
    found = run_scalednl("export", str(run), str(tmp_path / "net.pt2"), "--size", "16")
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "net.pt2").is_file()
    assert str(tmp_path / "net.pt2") in found.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere", "net.pt2"], 1, "nowhere does not exist"),
        (["nowhere", "net.tflite"], 2, "net.tflite must end in .onnx or .pt2"),
        (["nowhere", "net.pt2", "--size", "4"], 2, "--size must be at least 8, got 4"),
    ],
)
def test_mistakes_are_one_sentence(
    refused: Refused,
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    """Each names what was passed and what would work."""
    refused(["export", *arguments], code, said)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A folder in its place is refused at once; a failing disk leaves nothing behind."""
    run = made_run(tmp_path / "run", blocks=1)
    (tmp_path / "net.pt2").mkdir()
    found = run_scalednl("export", str(run), str(tmp_path / "net.pt2"), "--size", "16")
    assert found.returncode == 1
    assert "net.pt2 is a folder: name a file" in found.stderr
    long = tmp_path / f"{'n' * 250}.pt2"
    found = run_scalednl("export", str(run), str(long), "--size", "16")
    assert found.returncode == 1
    assert "cannot be written (File name too long): choose another file" in found.stderr
    assert "Traceback" not in found.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"run", "net.pt2"}


@pytest.mark.skipif(os.name == "nt", reason="no limit on the size of files")
@pytest.mark.parametrize("name", ["net.pt2", "net.onnx"])
def test_a_full_disk_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    """One sentence: neither a traceback nor the end of the process by a library."""
    run = made_run(tmp_path / "run", blocks=1)
    command = [sys.executable, "-m", "scalednl", "export", run, tmp_path / name, "--size", "16"]
    limited = ["bash", "-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "bash", *map(str, command)]
    found = subprocess.run(limited, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 1, found.stderr
    assert f"the disk of {tmp_path / name} is full: free some space" in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
