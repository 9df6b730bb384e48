"""What `insert_nonlocal` reports."""

import pytest

import scalednl
from scalednl.models.insertion_report import Checks, Insertion, InsertionReport
from tests.models.hosts import EXAMPLE, Branches


def test_the_report_counts_what_was_added() -> None:
    """Channels, pixels, parameters, planned order and multiply-adds, per place."""
    _, report = scalednl.insert_nonlocal(Branches(), "shared", count=3, example=EXAMPLE)
    (place,) = report.insertions
    assert (place.path, place.channels, place.space) == ("shared", 8, (16, 12))
    assert place.parameters == 3 * (4 * 8 * 8 + 2 * 8)
    plan = scalednl.NonLocal2d(8).plan((1, 8, 16, 12), training=False)
    assert place.multiply_adds == 2 * 3 * plan.multiply_adds
    assert "8x16x12 x2" in str(report)
    assert "bit for bit" in str(report)


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        (Checks(0.0, ()), "output equal, bit for bit"),
        (Checks(3e-5, ()), "output equal within rounding (3e-05)"),
        (Checks(None, ("a", "b")), "(at a, b after a later layer has moved from 0); output not"),
        (None, "nothing else, by check=False"),
    ],
)
def test_no_more_is_claimed_than_was_checked(checks: Checks | None, said: str) -> None:
    """`unchanged` needs an equal output; the last line says what was compared."""
    place = Insertion("s.0", "w", "NHWC", 8, (4, 6), 1, 2, 3, 100, "gram", 5_000_000)
    report = InsertionReport((place, place), checks)
    assert report.unchanged == (checks is not None and checks.difference == 0)
    assert report.parameters == 200
    *_, row, last = str(report).splitlines()
    assert row.split() == ["s.0", "8x4x6", "x2", "NHWC+1", "100", "5.0", "M", "gram"]
    assert said in last
