"""Output that closes, fills up or lacks letters stops no work."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest
from rich.console import Console
from rich.live import Live
from rich.text import Text

from scalednl.lab.console import emit
from scalednl.lab.streams import lasting_output


def _gone(kind: str) -> TextIO:
    """A pipe without a reader, a full disk, a closed file."""
    if kind == "pipe":
        reader, writer = os.pipe()
        os.close(reader)
        return os.fdopen(writer, "w")
    if kind == "full":
        return open("/dev/full", "w")
    file = open(os.devnull, "w")  # noqa: SIM115
    file.close()
    return file


@pytest.mark.parametrize("kind", ["pipe", "full", "closed"])
def test_output_that_nobody_takes_is_no_reason_to_stop(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes after it is printed nowhere, and closing the stream does not fail either."""
    out, errors = _gone(kind), _gone(kind)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", errors)
    with lasting_output():
        assert not sys.stdout.isatty()
        for _ in range(3):
            emit("a line")
            print("a warning", file=sys.stderr)
            Console(stderr=True).print("rich")
    assert (sys.stdout, sys.stderr) == (out, errors)
    out.close()
    errors.close()


def test_a_lost_stream_costs_no_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is printed into a closed one; a program without streams stays without."""
    monkeypatch.setattr(sys, "stdout", _gone("closed"))
    monkeypatch.setattr(sys, "stderr", None)
    before = len(os.listdir("/proc/self/fd"))
    with lasting_output():
        for _ in range(50):
            emit("a line")
        assert sys.stderr is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_letters_that_an_encoding_lacks_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes before and after them is printed too."""
    with (tmp_path / "out").open("w", encoding="ascii") as file:
        monkeypatch.setattr(sys, "stdout", file)
        with lasting_output():
            for text in ("before", "1 ± 2", "after"):
                emit(text)
    assert (tmp_path / "out").read_text() == "before\n1 \\xb1 2\nafter\n"


CLOSED = """
import os, sys
os.closerange(0, 3)
sys.stdin = sys.stdout = sys.stderr = None
from scalednl.lab.streams import open_standard_streams
open_standard_streams()
file = open(sys.argv[1], "w")
assert file.fileno() > 2
print("to nobody")
print("to nobody", file=sys.stderr)
sys.stdout.flush()
os.write(2, b"to nobody")
assert sys.stdin.read() == ""
"""


def test_closed_standard_streams_get_a_place(tmp_path: Path) -> None:
    """So that no file of ours takes their numbers, and with them what is printed."""
    file = tmp_path / "file"
    ended = subprocess.run([sys.executable, "-c", CLOSED, str(file)])
    assert ended.returncode == 0
    assert file.read_bytes() == b""


def test_a_live_table_is_drawn_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training within it makes its output last too: what rich has redirected stays as it is."""
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stdout", screen)
    console = Console(force_terminal=True, width=40)
    with (
        lasting_output(),
        Live(Text("the table"), console=console, auto_refresh=False) as live,
        lasting_output(),
    ):
        for _ in range(3):
            live.refresh()
        print("a line")
    assert screen.getvalue().count("a line") == 1
    assert screen.getvalue().count("the table") <= 6
