"""One report: report.html, report.md and report.json, side by side."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from inspect import getmembers
from pathlib import Path
from typing import Any

from scalednl.files import write_json, write_text, writing_to
from scalednl.lab.report.content import build_content
from scalednl.lab.report.html import render_page
from scalednl.lab.report.markdown import render_markdown

LEFT_OUT = (
    *("chart", "narrow", "charts", "curves", "maps", "explorer", "folder", "experiments"),
    "terms",
)
"""Pictures, the sums behind printed differences, and what only this machine can use"""


def write_report(folders: Sequence[Path], out: Path, bench: Sequence[Path] = ()) -> Path:
    """Read the records below the folders and write the page and its two companions.

    `bench` are more folders with records of `scalednl bench`. Returns the page's path.
    """
    content = build_content(folders, bench)
    page, markdown = render_page(content), render_markdown(content)
    with writing_to(out, "choose another file with -o"):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out.with_suffix(".json"), report_values(content))
        write_text(out.with_suffix(".md"), markdown)
        write_text(out, page)
    return out


def report_values(value: Any) -> Any:
    """A content, or a part of it, as plain values: fields and properties, without pictures."""
    if is_dataclass(value):
        properties = [
            name for name, _ in getmembers(type(value), lambda m: isinstance(m, property))
        ]
        names = [*(field.name for field in fields(value)), *properties]
        return {name: report_values(getattr(value, name)) for name in names if name not in LEFT_OUT}
    if isinstance(value, dict):
        return {key: report_values(part) for key, part in value.items()}
    return [report_values(part) for part in value] if isinstance(value, list | tuple) else value
