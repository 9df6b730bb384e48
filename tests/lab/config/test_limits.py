"""Numbers that are too small or too large."""

import math

import pytest

from scalednl.errors import UsageError
from scalednl.lab.config.limits import check_at_least, check_at_most


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_number_that_is_too_small_is_named(value: float) -> None:
    """The flag is written as on the command line; what is no finite number is refused too."""
    check_at_least(1, test_images=1, threads=None)
    number = "" if math.isfinite(value) else "a finite number, "
    with pytest.raises(UsageError, match=f"--test-images must be {number}at least 1, got {value}"):
        check_at_least(1, threads=1, test_images=value)


def test_a_number_that_is_too_large_is_named() -> None:
    """The message says how many there are of what."""
    check_at_most(3, "test images", limit=3, other=None)
    with pytest.raises(UsageError, match="--limit must be at most 3, the test images, got 4"):
        check_at_most(3, "test images", limit=4)
