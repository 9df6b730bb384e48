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
ANOTHER_FILE = "choose another file with -o"


def write_report(folders: Sequence[Path], out: Path, bench: Sequence[Path] = ()) -> Path:
    """Read the records below the folders and write the page and its two companions.

    `bench` are more folders with records of `scalednl bench`. Returns the page's path.
    """
    check_page(out, ANOTHER_FILE)
    return write_content(build_content(folders, bench), out)


def write_content(content: Content, out: Path) -> Path:
    """Write the page and its two companions."""
    page, text = render_page(content), render_markdown(content)
    with writing_to(out, ANOTHER_FILE):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out.with_suffix(".json"), report_values(content))
        write_text(out.with_suffix(".md"), text)
        write_text(out, page)
    return out


def check_page(out: Path, advice: str) -> None:
    """Raise where a report would replace a file that is neither empty nor part of a report.

    Commands call it before their work, of which the report is the end.
    """
    for path in (out, out.with_suffix(".md"), out.with_suffix(".json")):
        with writing_to(path, advice):
            start = b""
            if path.is_file():
                with path.open("rb") as file:
                    start = file.read(BEGINNING)
        if start and not BEGINS.get(path.suffix, BEGINS[".html"]).search(start):
            raise UsageError(
                f"{path} is not a report and would be replaced: {advice} (the page, its Markdown "
                "and its JSON have one name with three endings)"
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
