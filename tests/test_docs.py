"""The snippets of the README and the docs run, and what they show is what comes out."""

import re
from pathlib import Path

import pytest

import scalednl

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _snippets(page: Path) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if _snippets(page)], ids=lambda page: page.name
)
def test_snippets_run(page: Path) -> None:
    """All python snippets of a page run one after the other."""
    exec(compile(_snippets(page), str(page), "exec"), {})


def test_the_plan_in_the_readme_is_the_one_printed() -> None:
    """The table under `block.plan` is what the call prints."""
    shown = str(scalednl.NonLocal2d(64).plan((32, 64, 32, 32)))
    assert shown in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file that is there."""
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_make_targets_in_the_readme_exist() -> None:
    """Every `make` command that the README names is a target."""
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"\bmake ([a-z]+)", (ROOT / "README.md").read_text())
    assert {"demo", "test"} <= set(commands)
    for command in commands:
        assert re.search(rf"^{command}:", makefile, re.M), command
