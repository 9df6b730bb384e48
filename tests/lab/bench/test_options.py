"""What cannot be measured is refused in one sentence."""

from pathlib import Path
from typing import Any

import pytest

from scalednl.errors import UsageError
from scalednl.lab.bench.options import BenchOptions, parse_bytes


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"threads": 0}, r"--threads must be 1 to \d+ on this machine, got 0"),
        ({"repeats": 4}, "--repeats must be at least 5, got 4"),
        ({"device": "tpu"}, "--device must be cpu, cuda or such as cuda:0, got tpu"),
        ({"out": Path(__file__)}, "--out must be a folder, got .* is a file"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], sentence: str) -> None:
    """The sentence repeats what was asked for."""
    with pytest.raises(UsageError, match=sentence):
        BenchOptions(**options)


def test_sizes_are_read() -> None:
    """A size of memory is given as people write it."""
    assert parse_bytes("4GiB", "--budget") == 4 * 2**30
    assert parse_bytes("1.5 MiB", "--budget") == 3 * 2**19
    for wrong in ("4GB", "much", "0", "-1GiB"):
        with pytest.raises(UsageError, match=f"must be a size such as 4GiB or 512MiB, got {wrong}"):
            parse_bytes(wrong, "--budget")
