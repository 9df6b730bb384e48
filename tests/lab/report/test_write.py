"""A report's three files."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from scalednl.errors import CommandError
from scalednl.lab.recipes import find_recipe
from scalednl.lab.report.write import report_values, write_report
from tests.lab.report.builders import write_run


@dataclass(frozen=True)
class _Inner:
    number: float
    chart: str = "<svg>"

    @property
    def double(self) -> float:
        return 2 * self.number


@dataclass(frozen=True)
class _Outer:
    inner: tuple[_Inner, ...]
    by_name: dict[str, _Inner]
    folder: Path = Path("here")


def test_values_are_fields_and_properties_without_pictures() -> None:
    """Deep inside lists and dictionaries too; what only this machine can use is left out."""
    found = report_values(_Outer((_Inner(1.5),), {"a": _Inner(2.0)}))
    assert found == {
        "inner": [{"number": 1.5, "double": 3.0}],
        "by_name": {"a": {"number": 2.0, "double": 4.0}},
    }


def test_three_files_stand_beside_each_other(tmp_path: Path) -> None:
    """The folder is made; the same numbers are in all of them."""
    write_run(tmp_path / "runs" / "a", find_recipe("pairs-scaled"), [61.0, 12.34])
    page = write_report([tmp_path / "runs"], tmp_path / "new" / "page.html")
    assert page == tmp_path / "new" / "page.html"
    assert {path.name for path in page.parent.iterdir()} == {"page.html", "page.md", "page.json"}
    values = json.loads(page.with_suffix(".json").read_text())
    assert values["others"][0]["ours"]["last"]["mean"] == 12.34
    assert "12.34" in page.read_text()
    assert "12.34" in page.with_suffix(".md").read_text()
    assert str(tmp_path) not in page.with_suffix(".json").read_text()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The advice is the command's own option."""
    (tmp_path / "file").touch()
    with pytest.raises(CommandError, match=r"cannot be written .* choose another file with -o"):
        write_report([tmp_path], tmp_path / "file" / "report.html")
