"""What cannot be measured is refused in one sentence."""

from pathlib import Path
from typing import Any

import pytest

from scalednl.errors import UsageError
from scalednl.lab.bench.options import BenchOptions, parse_bytes, short_bytes


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"threads": 0}, "--threads 0 makes no sense"),
        ({"repeats": 4}, "--repeats 4 is too few for a ratio: give 5 or more"),
        ({"device": "tpu"}, "--device tpu is unknown"),
        ({"out": Path(__file__)}, "is a file, give a folder"),
    ],
)
def test_senseless_options_are_refused(options: dict[str, Any], sentence: str) -> None:
    """The sentence repeats what was asked for."""
    with pytest.raises(UsageError, match=sentence):
        BenchOptions(**options)


def test_sizes_are_read_and_written() -> None:
    """A memory is given as people write it, and shown so."""
    assert parse_bytes("4GiB", "--budget") == 4 * 2**30
    assert parse_bytes("1.5 MiB", "--budget") == 3 * 2**19
    assert short_bytes(3 * 2**29) == "1.5 GiB"
    assert short_bytes(512 * 2**20) == "512 MiB"
    for wrong in ("4GB", "much", "0", "-1GiB"):
        with pytest.raises(UsageError, match="is no size: give one such as 4GiB"):
            parse_bytes(wrong, "--budget")
