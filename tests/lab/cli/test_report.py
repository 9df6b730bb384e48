"""`scalednl report` as a person meets it."""

import json
from pathlib import Path

import pytest

from tests.lab.attention.builders import made_run
from tests.support import call_scalednl


def test_the_page_is_written_beside_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line is the page's path; Markdown and JSON have the run too."""
    made_run(tmp_path / "runs" / "mine")
    page = tmp_path / "page.html"
    code, text = call_scalednl(
        monkeypatch, capsys, "report", str(tmp_path / "runs"), "-o", str(page)
    )
    assert code == 0, text
    assert text.splitlines()[-1] == str(page)
    assert "mine" in page.read_text(encoding="utf-8")
    assert page.with_suffix(".md").is_file()
    assert json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name a run directory or a folder of them"),
        (["nowhere"], "nowhere is not a folder"),
        (["tests", "-o", "page.pdf"], "-o page.pdf must end in .html"),
        (["tests", "--bench", "nowhere"], "--bench nowhere is not a folder"),
    ],
)
def test_mistakes_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    """Exit code 2, and one line that names what was passed."""
    code, text = call_scalednl(monkeypatch, capsys, "report", *arguments)
    assert code == 2, text
    assert text.startswith(f"scalednl: {said}")
    assert len(text.splitlines()) == 1
