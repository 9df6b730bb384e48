"""The commands and snippets of the README and the docs work, and print what they show."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

import scalednl
from scalednl import lab
from scalednl.lab.cli import parse
from tests.peers import builders
from tests.snippets import NEEDS, PAGES, ROOT, is_traced, run_snippets, snippets

GUIDES = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md"]
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))

PROGRAMS = ("scalednl", "make", "python")
COMMAND = "(?:scalednl|make|python -m) "

FILES = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```", re.M | re.S)
"""A file that a page shows"""
PEERS = {
    "torchvision": builders.torchvision_models,
    "timm": builders.timm,
    "mmcv": builders.mmcv_cnn,
    "ultralytics": builders.ultralytics_tasks,
}


def _peer_snippets() -> dict[str, tuple[str, str, str]]:
    """Every snippet that needs another package: its name, the code, and what it prints."""
    return {f"{page.name}: {f[0]}": f for page in PAGES for f in NEEDS.findall(page.read_text())}


def _text(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def _shell_lines() -> dict[str, list[str]]:
    """Every line of a page that starts with one of our commands, with or without torchrun."""
    found: dict[str, list[str]] = {}
    for page in GUIDES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(rf"^ *(?:\$ |torchrun .* -m )?({COMMAND}.*)$", text, re.M):
            words = shlex.split(line, comments=True)
            found[f"{page.name}: {' '.join(words)}"] = words
    return found


def _inline_commands() -> dict[str, list[str]]:
    """Commands that pages name in running text, where only their names must be complete."""
    found: dict[str, list[str]] = {}
    for page in GUIDES:
        for code in re.findall(rf"`({COMMAND}[^`]+)`", _text(page)):
            found[f"{page.name}: {' '.join(code.split())}"] = code.split()
    return found


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if snippets(page) and not is_traced(page)],
    ids=lambda page: page.name,
)
def test_snippets_run(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All python snippets of a page run one after the other, and print what the page shows."""
    run_snippets(page, tmp_path, monkeypatch, capsys)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("peer", "code", "shown"), _peer_snippets().values(), ids=_peer_snippets())
def test_snippets_on_real_peers(
    peer: str,
    code: str,
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Snippets that need another package run with it, and print what the page shows."""
    PEERS[peer]()
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(code, {"scalednl": scalednl})
    assert not shown or capsys.readouterr().out == shown


def test_every_peer_has_a_snippet() -> None:
    """The test above runs over one snippet of each package at least."""
    assert {peer for peer, _, _ in _peer_snippets().values()} == set(PEERS)


def test_pages_show_what_snippets_print() -> None:
    """The tests above compare printed output on the guides and every tutorial."""
    showing = {page.stem for page in PAGES if any(shown for _, shown in snippets(page))}
    tutorials = {page.stem for page in (ROOT / "docs" / "tutorials").glob("*.md")}
    assert showing >= {"getting-started", "the-block", *tutorials}
    assert len(tutorials) == 3


@pytest.mark.parametrize(
    ("module", "names"),
    [("scalednl", scalednl.__all__), ("scalednl.lab", lab.__all__)],
    ids=["scalednl", "lab"],
)
def test_the_reference_has_every_public_name(module: str, names: list[str]) -> None:
    """docs/api.md documents each name of `__all__`, once, and nothing else."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    parts = re.split(r"currentmodule:: (\S+)", text)
    (part,) = [p for name, p in zip(parts[1::2], parts[2::2], strict=True) if name == module]
    found = re.findall(r"auto(?:class|function):: (\w+)", part)
    assert sorted(found) == sorted(set(names) - {"functional"})


def test_the_example_of_an_attention_is_the_file_that_its_page_shows() -> None:
    """The first snippet of the page is the complete file, and it is short."""
    example = (ROOT / "docs" / "examples" / "sigmoid_attention.py").read_text()
    page = (ROOT / "docs" / "attention-variants.md").read_text()
    assert re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)[0] == example
    assert len(example.splitlines()) <= 16


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file that is there."""
    for target in re.findall(r"\]\(([^)#:]+)\)", _text(page)):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("words", _shell_lines().values(), ids=_shell_lines())
def test_shell_lines_are_commands_that_exist(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`scalednl` lines parse to a command, `make` targets and `python -m` modules exist.

    Files that a line names have the contents that the pages show.
    """
    program, *arguments = words
    if ".py" in " ".join(arguments):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "docs").symlink_to(ROOT / "docs")
        for page in PAGES:
            for name, code in FILES.findall(page.read_text()):
                (tmp_path / name).write_text(code)
    if program == "scalednl":
        assert callable(parse(arguments))
    elif program == "make":
        assert {word for word in arguments if "=" not in word} <= TARGETS
    else:
        assert importlib.util.find_spec(arguments[1]) is not None


@pytest.mark.parametrize("words", _inline_commands().values(), ids=_inline_commands())
def test_commands_in_the_text_exist(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Commands that running text names have a help text, targets and modules exist."""
    program, *arguments = words
    if program == "make":
        assert arguments[0] in TARGETS
    elif program == "python":
        assert importlib.util.find_spec(arguments[1]) is not None
    elif not arguments[0].startswith("-"):
        group = 2 if arguments[0] in ("bench", "data") else 1
        with pytest.raises(SystemExit) as left:
            parse([*arguments[:group], "--help"])
        assert left.value.code == 0, capsys.readouterr().err


def test_the_pages_have_commands_of_every_kind() -> None:
    """The two tests above run over scalednl, make and python commands, in blocks and in text."""
    blocks, text = _shell_lines(), _inline_commands()
    assert {words[0] for words in (*blocks.values(), *text.values())} == set(PROGRAMS)
    assert min(len(blocks), len(text)) > 20
