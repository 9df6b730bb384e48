"""The page of `scalednl attention`: classes of photos, and the explorer of the same images."""

from collections.abc import Sequence
from pathlib import Path

from scalednl.files import write_text, writing_to
from scalednl.lab.records.attention import AttentionRecord
from scalednl.lab.report.attention import RunAttention, png_url
from scalednl.lab.report.formatting import data_words
from scalednl.lab.report.html import rendered

TITLES = 3
"""Photos whose names are in the title"""


def write_attention_page(records: Sequence[tuple[Path, AttentionRecord]], out: Path) -> Path:
    """Write the page of some networks' records of the same images, each with its folder."""
    items = [RunAttention(record.source, folder, record) for folder, record in records]
    first = items[0].record
    shown = {image.index: png_url(image.png) for image in first.explorer.images}
    page = rendered("attention.html.j2", items, items=items, title=page_title(first), shown=shown)
    with writing_to(out):
        write_text(out, page)
    return out


def page_title(record: AttentionRecord) -> str:
    """The names of the photos, or the data set."""
    if record.data is not None:
        return f"Images of {data_words(record.data)}"
    names = [photo.file for photo in record.photos]
    return ", ".join([*names[:TITLES], *(["..."] if len(names) > TITLES else [])])
