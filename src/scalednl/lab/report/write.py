"""One report: report.html, report.md and report.json, side by side."""

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from inspect import getmembers
from pathlib import Path
from typing import Any

from scalednl.errors import UsageError
from scalednl.files import write_json, write_text, writing_to
from scalednl.lab.report.content import Content, build_content
from scalednl.lab.report.html import render_page
from scalednl.lab.report.markdown import render_markdown

LEFT_OUT = (
    *("chart", "narrow", "charts", "curves", "maps", "explorer", "folder", "experiments"),
    "terms",
)
"""Pictures, the sums behind printed differences, and what only this machine can use"""
BEGINS = {
    ".html": re.compile(rb"<title>scalednl report"),
    ".md": re.compile(rb"^# scalednl report"),
    ".json": re.compile(rb'^\{\s*"schema": \d+,\s*"origin"'),
}
"""How the files of a report are known"""
BEGINNING = 4096
"""Bytes that are looked at"""


def write_report(folders: Sequence[Path], out: Path, bench: Sequence[Path] = ()) -> Path:
    """Read the records below the folders and write the page and its two companions.

    `bench` are more folders with records of `scalednl bench`. Returns the page's path.
    """
    return write_content(build_content(folders, bench), out)


def write_content(content: Content, out: Path) -> Path:
    """Write the page and its two companions; no file that is not part of a report is replaced."""
    values, markdown = out.with_suffix(".json"), out.with_suffix(".md")
    page, text = render_page(content), render_markdown(content)
    with writing_to(out, "choose another file with -o"):
        for path in (out, markdown, values):
            _check_replaceable(path)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(values, report_values(content))
        write_text(markdown, text)
        write_text(out, page)
    return out


def _check_replaceable(path: Path) -> None:
    """Raise where a file is neither empty nor what this module writes under such a name."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        start = file.read(BEGINNING)
    if start and not BEGINS.get(path.suffix, BEGINS[".html"]).search(start):
        raise UsageError(
            f"{path} is not a report and would be replaced: choose another file with -o (the page, "
            "its Markdown and its JSON have one name with three endings)"
        )


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
