"""docs/half-precision.md holds what the stored record says."""

from scripts.half_precision_tables import PAGE, newest_record, with_tables


def test_the_page_shows_the_record() -> None:
    """docs/half-precision.md is what `python -m scripts.half_precision_tables` writes."""
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page, newest_record()) == page, "run scripts.half_precision_tables"


def test_the_page_says_what_was_tried() -> None:
    """The numbers in the text are the record's."""
    record, page = newest_record(), " ".join(PAGE.read_text(encoding="utf-8").split())
    first = record.rows[0].setting.features
    side = f"{first.side}x{first.side}"
    size = f"{first.batch} images, {first.channels} channels, {side} pixels after a ReLU"
    assert f"({size}, {record.settings.heads} heads, He init)" in page
    assert f"within {100 * record.settings.tolerance:.0f} % of float64" in page
    assert f"every size tried, up to {record.settings.largest:.0f}" in page
