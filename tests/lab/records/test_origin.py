"""Where a result comes from."""

import sys

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
