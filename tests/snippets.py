"""The python snippets of the README and the docs, and how tests run them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

NEEDS = re.compile(r"<!-- needs (\w+) -->\n```python\n(.*?)^```\n(?:```\n(.*?)^```)?", re.M | re.S)
"""A snippet that needs another package, and what it prints where the page shows it"""
SNIPPET = re.compile(r"^```python\n(.*?)^```\n(?:```\n(.*?)^```)?", re.M | re.S)
"""Any other snippet, and what it prints where the page shows it"""


def snippets(page: Path) -> list[tuple[str, str]]:
    """Code that needs no other package, and what it prints where the page shows it."""
    return SNIPPET.findall(NEEDS.sub("", page.read_text(encoding="utf-8")))


def is_traced(page: Path) -> bool:
    """Whether its snippets export, which shape checks prevent: see tests/conftest.py."""
    return any("export_model(" in code for code, _ in snippets(page))


def run_snippets(
    page: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Run all of them one after the other in a folder, beside the records of the repository."""
    monkeypatch.chdir(folder)
    (folder / "results").symlink_to(ROOT / "results")
    names: dict[str, object] = {}
    for code, shown in snippets(page):
        capsys.readouterr()
        exec(compile(code, str(page), "exec"), names)
        assert not shown or capsys.readouterr().out == shown
