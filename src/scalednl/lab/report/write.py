"""One report: report.html, report.md and report.json, side by side."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalednl.errors import CommandError
from scalednl.files import write_json, write_text
from scalednl.lab.report.content import build_content
from scalednl.lab.report.html import render_page
from scalednl.lab.report.markdown import render_markdown


def write_report(folders: Sequence[Path], out: Path, bench: Sequence[Path] = ()) -> Path:
    """Read what lies below the folders and write the page and its two companions.

    `bench` are more folders with records of `scalednl bench`. Returns the page's path.
    """
    content, records = build_content(folders, bench)
    page, markdown, numbers = (
        render_page(content, records),
        render_markdown(content),
        _numbers(content),
    )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out.with_suffix(".json"), numbers)
        write_text(out.with_suffix(".md"), markdown)
        write_text(out, page)
    except OSError as error:
        raise CommandError(f"{out} cannot be written: {error.strerror or error}") from error
    return out


def _numbers(content: dict[str, Any]) -> dict[str, Any]:
    """The content without what is drawn."""
    numbers = copy.copy(content)
    numbers["tables"] = [
        {name: value for name, value in table.items() if name not in ("curves", "charts")}
        for table in content["tables"]
    ]
    numbers["printed"] = {k: v for k, v in content["printed"].items() if k != "chart"}
    numbers["others"] = content["others"]["rows"]
    numbers["costs"] = [
        {name: value for name, value in item.items() if name != "chart"}
        for item in content["costs"]
    ]
    return numbers
