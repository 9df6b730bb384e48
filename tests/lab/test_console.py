"""Durations and sizes as a person reads them."""

import pytest

from scalednl.lab.console import counted, duration, short_bytes


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
    [(59.4, "59 s"), (59.6, "1 min 00 s"), (3725, "1 h 02 min"), (200_000, "2 d 07 h")],
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
