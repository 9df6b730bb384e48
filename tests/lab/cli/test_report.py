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


def test_other_files_are_not_replaced(tmp_path: Path, call: Call) -> None:
    """Notes, a run's config.json, another page: nothing is written, and the file is named."""
    run = made_run(tmp_path / "mine")
    (tmp_path / "README.md").write_text("my notes")
    (tmp_path / "own.html").write_text("<html>mine</html>")
    before = (run / "config.json").read_bytes()
    for out, named in (
        (tmp_path / "README.html", "README.md"),
        (run / "config.html", "config.json"),
        (tmp_path / "own.html", "own.html"),
    ):
        code, text = call("report", str(run), "-o", str(out))
        assert code == 2
        assert f"{named} is not a report and would be replaced" in text
    assert (tmp_path / "README.md").read_text() == "my notes"
    assert (run / "config.json").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "README.md", "own.html"}
    for _ in range(2):
        assert call("report", str(run), "-o", str(tmp_path / "report.html"))[0] == 0


def test_nothing_to_report_is_said(tmp_path: Path, call: Call) -> None:
    """A folder without runs, and runs that cannot be read, are named beside the page."""
    (tmp_path / "empty").mkdir()
    code, text = call("report", str(tmp_path / "empty"), "-o", str(tmp_path / "report.html"))
    assert code == 0
    assert f"no run and no benchmark record below {tmp_path / 'empty'}" in text
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.json").write_text("{")
    _, text = call("report", str(tmp_path / "bad"), "-o", str(tmp_path / "report.html"))
    assert "1 run cannot be read: the page says why" in text


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
