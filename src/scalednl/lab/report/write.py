"""One report: report.html, report.md and report.json, side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalednl.files import write_json, write_text, writing_to
from scalednl.lab.records.typed_json import plain_values
from scalednl.lab.report.content import Content, build_content
from scalednl.lab.report.html import render_page
from scalednl.lab.report.markdown import render_markdown

DRAWN = ("chart", "charts", "curves")
"""Parts of a content that are pictures"""


def write_report(folders: Sequence[Path], out: Path, bench: Sequence[Path] = ()) -> Path:
    """Read the records below the folders and write the page and its two companions.

    `bench` are more folders with records of `scalednl bench`. Returns the page's path.
    """
    content, records = build_content(folders, bench)
    page, markdown = render_page(content, records), render_markdown(content)
    with writing_to(out, "choose another file with -o"):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out.with_suffix(".json"), report_values(content))
        write_text(out.with_suffix(".md"), markdown)
        write_text(out, page)
    return out


def report_values(content: Content) -> Any:
    """The numbers of a content as plain values, without what is drawn."""
    return _without_pictures(plain_values(content))


def _without_pictures(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_pictures(part) for k, part in value.items() if k not in DRAWN}
    return [_without_pictures(part) for part in value] if isinstance(value, list | tuple) else value
