"""What commands print: durations, sizes, tables, progress."""

import time

import pytest

from scalednl.lab.console import (
    counted,
    duration,
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


def test_a_notice_is_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, after the program's name, so that JSON on standard output stays JSON."""
    notice("waiting")
    assert capsys.readouterr() == ("", "scalednl: waiting\n")
