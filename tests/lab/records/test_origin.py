"""Where a result comes from."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scalednl.lab.records import origin


def test_the_command_is_quoted_and_keeps_folders_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Program and absolute paths by their last part, other words as a shell wants them."""
    words = ["/home/me/bin/scalednl", "train", "a b", "--out", "/home/me/runs/one", "--seed", "3"]
    monkeypatch.setattr(sys, "argv", words)
    assert origin().command == "scalednl train 'a b' --out .../one --seed 3"


def test_the_origin_names_program_machine_and_moment() -> None:
    """Versions, processor and a date in UTC; threads as given."""
    found = origin(threads=3)
    assert found.threads == 3
    assert "torch" in found.packages
    assert found.machine
    assert found.date.endswith("+00:00")


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize(
    ("changed", "mark"),
    [
        ("src/scalednl/lab/records/origin.py", "-dirty"),
        ("benchmarks/capacity.py", "-dirty"),
        ("results/lite/report.md", ""),
        ("README.md", ""),
    ],
)
def test_a_commit_is_dirty_if_programs_were_changed(
    changed: str, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records and pages that were written again are no other program."""
    files = ["src/scalednl/lab/records/origin.py", "benchmarks/capacity.py"]
    for name in (*files, "scripts/results.py", "results/lite/report.md", "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(sys.modules[origin.__module__], "__file__", str(tmp_path / files[0]))
    before = origin().commit
    (tmp_path / changed).write_text("2")
    assert before is not None
    assert origin().commit == before + mark
