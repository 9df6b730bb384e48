"""Fixtures of tests that call the command line."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support import call_scalednl, called_scalednl

Call = Callable[..., tuple[int, str]]
Run = Callable[..., "CompletedProcess[str]"]
Refused = Callable[[Sequence[str], int, str], None]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls a command in this process: its exit code, and all that it printed."""
    return lambda *arguments: call_scalednl(monkeypatch, capsys, *arguments)


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run_scalednl` in this process."""
    return lambda *arguments: called_scalednl(monkeypatch, capsys, *arguments)


@pytest.fixture
def refused(call: Call) -> Refused:
    """Asserts that a command ends with an exit code and with one sentence that contains words.

    Mistakes that the parser finds itself may refer to the help, or print the usage, instead.
    """

    def check(arguments: Sequence[str], code: int, said: str) -> None:
        found, text = call(*arguments)
        assert found == code, text
        assert said in text
        by_parser = "For full helptext" in text or text.startswith("usage:")
        assert by_parser or re.fullmatch(r"scalednl: [^\n]+\n", text), text

    return check


@pytest.fixture
def refused_at_once(refused: Refused, tmp_path: Path) -> Refused:
    """The same for commands with a folder of data and one of results: nothing is written."""

    def check(arguments: Sequence[str], code: int, said: str) -> None:
        places = ["--root", str(tmp_path / "data")]
        if "--out" not in arguments:
            places += ["--out", str(tmp_path / "out")]
        refused([*arguments, *places], code, said)
        assert not (tmp_path / "out").exists()

    return check
