"""The snippets of the README and the docs run, and what they show is what comes out."""

import re
from pathlib import Path

import pytest

import scalednl
from tests.peers import builders

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


NEEDS_TORCHVISION = re.compile(
    r"<!-- needs torchvision -->\n```python\n(.*?)^```\n```\n(.*?)^```", re.M | re.S
)


def _snippets(page: Path) -> str:
    text = NEEDS_TORCHVISION.sub("", page.read_text())
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if _snippets(page)], ids=lambda page: page.name
)
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All python snippets of a page run one after the other."""
    monkeypatch.chdir(tmp_path)
    exec(compile(_snippets(page), str(page), "exec"), {})


@pytest.mark.filterwarnings("ignore")
def test_the_snippet_on_a_real_torchvision_resnet(capsys: pytest.CaptureFixture[str]) -> None:
    """Inserting into torchvision's resnet50 prints the report that the README shows."""
    builders.torchvision_models()
    found = NEEDS_TORCHVISION.search((ROOT / "README.md").read_text())
    assert found is not None
    exec(found[1], {"scalednl": scalednl})
    assert capsys.readouterr().out == found[2]


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
