"""What commands print: durations, sizes, tables, progress."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

import pytest
from rich.console import Console
from rich.live import Live
from rich.text import Text

from scalednl.lab.console import (
    counted,
    duration,
    emit,
    lasting_output,
    notice,
    short_bytes,
    speed_words,
    table_text,
    track,
)


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 KiB"),
        (2**20 - 1024, "1023 KiB"),
        (1.5 * 2**20, "1.5 MiB"),
        (512 * 2**20, "512 MiB"),
        (3 * 2**29, "1.5 GiB"),
    ],
)
def test_sizes(size: float, shown: str) -> None:
    """KiB, MiB or GiB, with a decimal place below 100."""
    assert short_bytes(size) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3599.7, "1 h 00 min"),
        (3725, "1 h 02 min"),
        (172_799, "47 h 59 min"),
        (172_800, "2 d 00 h"),
        (200_000, "2 d 07 h"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    """Two units, the larger first."""
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1234, "1,234 runs")]
)
def test_counts(count: int, shown: str) -> None:
    """One thing is singular."""
    assert counted(count, "run") == shown


def test_speeds() -> None:
    """Slow ones have a decimal."""
    assert [speed_words(v) for v in (0.6, 9.94, 12.3, 1234)] == [
        *("0.6 images/s", "9.9 images/s", "12 images/s", "1,234 images/s")
    ]


def test_numbers_stand_right_and_words_left() -> None:
    """A column of numbers, ratios and empty cells is to the right, but never the first one."""
    rows = [["1", "x1.5", "a", ""], ["22", "<0.01", "3b", "12"]]
    assert table_text(["", "ratio", "word", "n"], rows).splitlines() == [
        "|    | ratio | word |  n |",
        "|----|------:|------|---:|",
        "| 1  |  x1.5 | a    |    |",
        "| 22 | <0.01 | 3b   | 12 |",
    ]


def test_progress_without_a_terminal_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At most one every ten seconds, with the share where the total is known."""
    clock = iter([0.0, 5.0, 11.0, 11.0, 12.0, 30.0, 30.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with track("reading", 4_000_000, in_bytes=True) as advance:
        for _ in range(4):
            advance(1_000_000)
    assert capsys.readouterr().err == "reading: 2 MB (50%)\nreading: 4 MB (100%)\n"


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
from scalednl.lab.console import open_standard_streams
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


def test_a_notice_is_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, after the program's name, so that JSON on standard output stays JSON."""
    notice("waiting")
    assert capsys.readouterr() == ("", "scalednl: waiting\n")


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
