"""The demonstration from start to end, on fewer images; the whole of it is `make demo`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.lab.config import Experiment
from scalednl.lab.demo import cost, training
from scalednl.lab.recipes import find_recipe
from tests.support import call_scalednl


def _small(name: str) -> Experiment:
    recipe = find_recipe(name)
    images = replace(recipe.pairs, train_images=256, test_images=64)
    return replace(recipe, pairs=images, epochs=1, batch=64)


def test_it_trains_measures_looks_and_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line is the path of a page that holds three runs, their maps and the cost table."""
    monkeypatch.setattr(training, "find_recipe", _small)
    monkeypatch.setattr(cost, "SIDE", 8)
    out = tmp_path / "demo"
    code, printed = call_scalednl(monkeypatch, capsys, "demo", "--out", str(out))
    assert code == 0
    assert printed.splitlines()[-1] == str(out / "report.html")
    # Without a terminal, epochs are lines of their own; on one they change the table in place.
    kept = [line for line in printed.splitlines() if not line.startswith("epoch ")]
    kept = [line for line in kept if line.rstrip(":") not in training.RECIPES.values()]
    assert len(kept) <= 24
    assert max(map(len, kept[:-1])) <= 100
    for part in ("no block", "softmax", "scaled", "chance", "scaled auto"):
        assert part in printed
    numbers = json.loads((out / "report.json").read_text())
    rows = {row["recipe"]: row for row in numbers["others"]}
    assert set(rows) == {"pairs-plain", "pairs-softmax", "pairs-scaled"}
    for name, row in rows.items():
        result = json.loads((out / name / "result.json").read_text())
        assert row["ours"]["last"]["mean"] == result["test_error_pct"]["last"]
    assert {item["run"] for item in numbers["attention"]} == {"pairs-softmax", "pairs-scaled"}
    assert [item["kind"] for item in numbers["costs"]] == ["blocks"]
    page = (out / "report.html").read_text()
    assert 'id="explorer-data"' in page
    assert "softmax plain" in page

    before = (out / "pairs-scaled" / "result.json").stat().st_mtime_ns
    assert call_scalednl(monkeypatch, capsys, "demo", "--out", str(out))[0] == 0
    assert (out / "pairs-scaled" / "result.json").stat().st_mtime_ns == before
