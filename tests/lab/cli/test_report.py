"""`scalednl report` as a person meets it."""

import json
from pathlib import Path

import pytest

from tests.lab.attention.builders import made_run
from tests.lab.cli.conftest import Call, Refused


def test_the_page_is_written_beside_its_numbers(tmp_path: Path, call: Call) -> None:
    """The last line is the page's path; Markdown and JSON have the run too."""
    made_run(tmp_path / "runs" / "mine")
    page = tmp_path / "page.html"
    code, text = call("report", str(tmp_path / "runs"), "-o", str(page))
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
    refused: Refused,
    arguments: list[str],
    said: str,
) -> None:
    """Exit code 2, and one line that names what was passed."""
    refused(["report", *arguments], 2, said)
