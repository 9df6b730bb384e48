"""The demonstration from start to end, on fewer images; the whole of it is `make demo`."""

import json
import signal
import subprocess
import sys
import time
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


def test_interrupted_it_says_how_to_go_on(tmp_path: Path) -> None:
    """Ctrl-C ends it with 130 and a sentence, and the first run can be gone on with."""
    command = [sys.executable, "-m", "scalednl", "demo", "--threads", "1", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    result = tmp_path / "pairs-plain" / "result.json"
    deadline = time.monotonic() + 120
    while not result.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "the same command goes on" in errors
    assert "Traceback" not in errors
    assert json.loads(result.read_text())["status"] == "interrupted"
