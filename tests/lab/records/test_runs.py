"""Run directories in every state are read, and none ends the report."""

import json
from pathlib import Path

import pytest

from scalednl.errors import UsageError
from scalednl.lab.records.failure import write_failure
from scalednl.lab.records.run import RunFolder
from scalednl.lab.records.runs import find_runs, read_run
from tests.lab.report.builders import cell_experiment, write_run

EXPERIMENT = cell_experiment("table3_heads", "scaled", "4 heads")


def test_runs_are_found_below_folders_each_once(tmp_path: Path) -> None:
    """Folders may overlap, and names are their places below the folder that was given."""
    write_run(tmp_path / "a" / "one", EXPERIMENT, [50.0])
    write_run(tmp_path / "a" / "deep" / "two", EXPERIMENT, [40.0])
    (tmp_path / "a" / "not-a-run").mkdir()
    runs = find_runs([tmp_path / "a", tmp_path / "a" / "one"])
    assert [run.name for run in runs] == ["deep/two", "one"]
    assert [run.last_error for run in runs] == [40.0, 50.0]


def test_a_missing_folder_is_a_mistake(tmp_path: Path) -> None:
    """What is not there is named."""
    with pytest.raises(UsageError, match="nowhere is not a folder"):
        find_runs([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("config.json", "{", "config.json is damaged"),
        ("config.json", '{"schema": 99}', "has schema 99"),
        ("config.json", '{"schema": 1, "experiment": {}, "run": {}}', "recipe is missing"),
        ("config.json", "[]", "Expected `object`, got `array`"),
        ("result.json", '{"schema": 1, "status": 3}', "status"),
        (
            "result.json",
            '{"schema": 1, "status": "finished", "seconds": "long"}',
            "Expected `float`",
        ),
        ("result.json", "\x00\x01", "is damaged"),
        ("epochs.jsonl", '{"schema": 1, "epoch": 0', "is damaged"),
        ("epochs.jsonl", '{"schema": 1, "epoch": 0, "test_error_pct": NaN}\n', "malformed"),
        ("epochs.jsonl", '{"schema": 1, "test_error_pct": 3}\n', "missing required field `epoch`"),
        ("epochs.jsonl", "[1]\n", "is damaged"),
    ],
)
def test_damage_is_said_and_not_raised(tmp_path: Path, file: str, text: str, says: str) -> None:
    """Whatever a file holds, the run is listed with what is wrong."""
    write_run(tmp_path / "run", EXPERIMENT, [50.0])
    (tmp_path / "run" / file).write_text(text)
    run = read_run(tmp_path / "run")
    assert run.state == "damaged"
    assert says in run.note
    assert str(tmp_path) not in run.note
    assert not run.counts


def test_missing_files_are_told_apart(tmp_path: Path) -> None:
    """A run without a result was interrupted; one without a config is damaged."""
    folder = write_run(tmp_path / "run", EXPERIMENT, [50.0])
    (folder.path / "result.json").unlink()
    assert read_run(folder.path).state == "interrupted"
    (folder.path / "config.json").unlink()
    assert read_run(folder.path).state == "damaged"


def test_running_is_who_holds_the_lock(tmp_path: Path) -> None:
    """A run that says running is that only while a process holds its lock."""
    folder = write_run(tmp_path / "run", EXPERIMENT, [50.0], status="running")
    (folder.path / ".lock").touch()
    with folder.locked():
        assert read_run(folder.path).state == "running"
    assert read_run(folder.path).state == "interrupted"
    assert not RunFolder(tmp_path).is_locked()


def test_failures_are_told(tmp_path: Path) -> None:
    """A run that a sweep gave up says why, whether or not it got as far as a config."""
    write_failure(tmp_path / "early", "no such data")
    folder = write_run(tmp_path / "late", EXPERIMENT, [50.0], status="interrupted")
    write_failure(folder.path, "killed by signal 9")
    done = write_run(tmp_path / "done", EXPERIMENT, [50.0])
    write_failure(done.path, "killed once")
    told = {run.name: (run.state, run.note) for run in find_runs([tmp_path])}
    assert told == {
        "early": ("failed", "no such data"),
        "late": ("failed", "killed by signal 9"),
        "done": ("finished", ""),
    }


def test_infinite_errors_enter_no_mean(tmp_path: Path) -> None:
    """A finished run without a finite error does not count."""
    folder = write_run(tmp_path / "run", EXPERIMENT, [50.0])
    result = json.loads((folder.path / "result.json").read_text())
    result["test_error_pct"]["last"] = None
    (folder.path / "result.json").write_text(json.dumps(result))
    assert not read_run(folder.path).counts
