"""What docs/half-precision.md says around its tables."""

from benchmarks.records import HalfPrecisionRecord
from scripts.cost_section import newest
from scripts.results import PAGES


def test_the_page_says_what_was_tried() -> None:
    """The numbers in the text are the record's."""
    record = newest(HalfPrecisionRecord)
    page = " ".join(PAGES["half"].read_text(encoding="utf-8").split())
    first = record.rows[0].setting.features
    side = f"{first.side}x{first.side}"
    size = f"{first.batch} images, {first.channels} channels, {side} pixels after a ReLU"
    assert f"({size}, {record.settings.heads} heads, He init)" in page
    assert f"within {100 * record.settings.tolerance:.0f} % of float64" in page
    assert f"every size tried, up to {record.settings.largest:.0f}" in page
