"""Whatever lies in the folders, a page comes out of them."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from scalednl.lab.paper.scales import run_name
from scalednl.lab.recipes import find_recipe
from scalednl.lab.records.runs import find_runs
from scalednl.lab.report.write import write_report
from tests.lab.report.builders import cell_experiment, write_cell, write_run

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
EXPERIMENT = cell_experiment("table1_importance", "scaled", "base")
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 10**400, 1e308, float("nan"), float("inf"), "0", "\ud800", "<b>|", "", 5]),
    st.just([]),
    st.just({}),
    st.just([["x"]]),
)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every way into a JSON value."""
    yield place
    items: list[tuple[Any, Any]] = list(value.items()) if isinstance(value, dict) else []
    if isinstance(value, list):
        items = list(enumerate(value))[:3]
    for name, item in items:
        yield from _places(item, (*place, name))


def _put(value: Any, place: tuple[Any, ...], odd: Any) -> Any:
    if not place:
        return odd
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[place[0]] = _put(copied[place[0]], place[1:], odd)
    return copied


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of a cell, and full records of the benchmarks."""
    place = tmp_path_factory.mktemp("hostile")
    write_cell(place, EXPERIMENT, [20.0, 21.0])
    for name in ("table3", "scaling"):
        newest = sorted(RESULTS.glob(f"{name}_*.json"))[-1]
        (place / f"{name}.json").write_text(newest.read_text())
    return place


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(data=st.data())
def test_one_odd_value_anywhere(folder: Path, data: st.DataObject) -> None:
    """Any value of any file may be of any kind: the page, its tables and numbers are written."""
    run = next(path for path in sorted(folder.iterdir()) if path.is_dir())
    names = [run / "config.json", run / "result.json", run / "epochs.jsonl"]
    file = data.draw(st.sampled_from([*names, folder / "table3.json", folder / "scaling.json"]))
    text = file.read_text()
    first, _, rest = text.partition("\n") if file.suffix == ".jsonl" else (text, "", "")
    value = json.loads(first)
    odd = _put(value, data.draw(st.sampled_from(list(_places(value)))), data.draw(ODD))
    try:
        file.write_text(json.dumps(odd) + ("\n" + rest if rest else ""))
        page = write_report([folder], folder / "report.html")
    finally:
        file.write_text(text)
    assert json.loads(page.with_suffix(".json").read_text())["counts"]["runs"] == 2
    assert "<b>|" not in page.read_text()


def _nested(depth: int) -> str:
    return "[" * depth + "]" * depth


HOSTILE: dict[str, tuple[str, str]] = {
    "lone-surrogate-in-recipe": ("config.json", '{"experiment": {"recipe": "\\ud800"}}'),
    "init-is-a-list": ("config.json", '{"experiment": {"block": {"init": []}}}'),
    "huge-epochs": ("config.json", f'{{"experiment": {{"epochs": {10**400}}}}}'),
    "unknown-option": ("config.json", '{"experiment": {"block": {"colour": 3}}}'),
    "deep-settings": ("config.json", f'{{"run": {{"settings": {{"x": {_nested(600)}}}}}}}'),
    "deep-result": ("result.json", f'{{"origin": {{"packages": {_nested(600)}}}}}'),
    "deeper-result": ("result.json", f'{{"new": {_nested(100_000)}}}'),
    "huge-seconds": ("result.json", '{"seconds": 1e308}'),
    "null-seconds": ("result.json", '{"seconds": null}'),
    "error-above-100": ("result.json", '{"test_error_pct": {"last": 1e9}}'),
    "lone-surrogate-in-origin": ("result.json", '{"origin": {"machine": "\\udfff"}}'),
    "epochs-backwards": ("epochs.jsonl", '{"epoch": -1}'),
    "nan-in-epochs": ("epochs.jsonl", '{"test_error_pct": NaN}'),
    "half-a-line": ("epochs.jsonl", '{"epoch": '),
}
"""What is merged into which file of a run"""


def _merged(value: Any, change: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(change, dict):
        return change
    return value | {name: _merged(value.get(name), part) for name, part in change.items()}


@pytest.mark.parametrize("name", HOSTILE)
def test_one_hostile_run_is_a_row_with_its_reason(tmp_path: Path, name: str) -> None:
    """It is listed as damaged with the file named; the other run's numbers are as they were."""
    write_run(tmp_path / "fine", EXPERIMENT, [20.0])
    file = write_run(tmp_path / "bad", replace(EXPERIMENT, seed=1), [30.0]).path / HOSTILE[name][0]
    text = file.read_text()
    first = text.splitlines()[0] if file.suffix == ".jsonl" else text
    try:
        text = json.dumps(_merged(json.loads(first), json.loads(HOSTILE[name][1])))
    except (ValueError, RecursionError):
        # Deeper than Python itself writes, or half a value.
        start = first.rstrip().removesuffix("}")
        text = f"{start}, {HOSTILE[name][1].removeprefix('{')}"
    file.write_text(text)
    _check_only_fine_counts(tmp_path, file.name)


def _check_only_fine_counts(folder: Path, file: str) -> None:
    page = write_report([folder], folder / "report.html")
    numbers = json.loads(page.with_suffix(".json").read_text())
    runs = {run["name"]: run for run in numbers["runs"]}
    assert (runs["fine"]["state"], runs["fine"]["last"]) == ("finished", 20.0)
    assert runs["bad"]["state"] == "damaged"
    assert file in runs["bad"]["problem"]
    assert str(folder) not in runs["bad"]["problem"]
    assert runs["bad"]["problem"][:40] in page.with_suffix(".md").read_text().replace("\\", "")


@pytest.mark.parametrize("file", ["config.json", "result.json", "epochs.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "endless", "loop", "folder"])
def test_files_that_are_none(tmp_path: Path, file: str, kind: str) -> None:
    """Pipes, endless devices, links to themselves and folders are refused, not waited for."""
    write_run(tmp_path / "fine", EXPERIMENT, [20.0])
    path = write_run(tmp_path / "bad", replace(EXPERIMENT, seed=1), [30.0]).path / file
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "endless" else path)
    _check_only_fine_counts(tmp_path, file)


@pytest.mark.parametrize("kind", ["pipe", "surrogate", "deep"])
def test_failures_and_maps_of_any_kind(tmp_path: Path, kind: str) -> None:
    """A failure.json that cannot be read is no failure, and never stops the page."""
    path = write_run(tmp_path / "bad", EXPERIMENT, [30.0]).path / "failure.json"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text('"\\ud800"' if kind == "surrogate" else "[" * 100_000)
    write_report([tmp_path], tmp_path / "report.html")
    assert [run.state for run in find_runs([tmp_path])] == ["finished"]


def test_long_texts_are_cut(tmp_path: Path) -> None:
    """A text of a megabyte from a file takes a line of the page, not a megabyte."""
    write_run(tmp_path / "run", replace(find_recipe("pairs-scaled"), recipe="x" * 10**6), [20.0])
    page = write_report([tmp_path], tmp_path / "report.html")
    assert page.stat().st_size < 500_000
    assert page.with_suffix(".md").stat().st_size < 100_000


def test_names_of_any_bytes(tmp_path: Path) -> None:
    """Folders that are not UTF-8 and a stray result do not hide what is well."""
    write_run(tmp_path / "fine", EXPERIMENT, [20.0])
    odd = os.fsdecode(os.fsencode(str(tmp_path)) + b"/od\xffd")
    write_run(Path(odd), replace(EXPERIMENT, seed=2), [20.0])
    (tmp_path / "result.json").write_text("{}")
    write_report([tmp_path], tmp_path / "report.html")
    assert {run.name: run.state for run in find_runs([tmp_path])} == {
        "fine": "finished",
        "od?d": "finished",
    }


def test_equal_names_stay_apart(tmp_path: Path) -> None:
    """Runs of one name in two folders are two runs, each with its own numbers."""
    write_run(tmp_path / "a" / "run", find_recipe("pairs-scaled"), [20.0])
    write_run(tmp_path / "b" / "run", find_recipe("pairs-softmax"), [40.0])
    page = write_report([tmp_path / "a", tmp_path / "b"], tmp_path / "report.html")
    numbers = json.loads(page.with_suffix(".json").read_text())
    last = {run["name"]: run["last"] for run in numbers["runs"]}
    assert last == {"a/run": 20.0, "b/run": 40.0}
    behind = {row["recipe"]: row["ours"]["runs"] for row in numbers["others"]}
    assert behind == {"pairs-scaled": ["a/run"], "pairs-softmax": ["b/run"]}


def test_of_one_seed_the_run_further_on_counts(tmp_path: Path) -> None:
    """A second run of a training and seed is set aside, and said to be."""
    write_run(tmp_path / "cut", EXPERIMENT, [60.0], status="interrupted")
    write_run(tmp_path / "whole", EXPERIMENT, [50.0, 20.0])
    write_run(tmp_path / "half", replace(EXPERIMENT, precision="bf16"), [10.0])
    page = write_report([tmp_path], tmp_path / "report.html")
    numbers = json.loads(page.with_suffix(".json").read_text())
    table = next(t for t in numbers["tables"] if t["name"] == "table1_importance")
    smoke = next(group for group in table["groups"] if group["scale"] == "smoke")
    ours = smoke["rows"][0]["cells"]["base"]["ours"]
    assert (ours["n"], ours["last"]["mean"], ours["runs"]) == (1, 20.0, ["whole"])
    problems = {run["name"]: run["problem"] for run in numbers["runs"]}
    assert problems["cut"].startswith("set aside")
    left_out = page.with_suffix(".md").read_text().split("## Runs left out")[1]
    assert "| cut | set aside: another run" in left_out
    assert problems["whole"] == problems["half"] == ""
    half = next(group for group in table["groups"] if group["scale"] == "smoke, bf16")
    ours = half["rows"][0]["cells"]["base"]["ours"]
    assert (ours["n"], ours["last"]["mean"], ours["runs"]) == (1, 10.0, ["half"])
    assert not numbers["others"]


def test_runs_of_half_precision_alone(tmp_path: Path) -> None:
    """A report over bf16 runs has their tables, differences and verdicts, marked as bf16."""
    chosen = [
        replace(cell_experiment("table1_importance", row, "base"), precision="bf16")
        for row in ("softmax", "scaled")
    ]
    for seed in range(2):
        for one, error in zip(chosen, (30.0, 20.0), strict=True):
            one = replace(one, seed=seed)
            write_run(tmp_path / run_name(one), one, [error + seed])
    own = replace(chosen[1], lr=0.123)
    write_run(tmp_path / "own", own, [50.0])
    page = write_report([tmp_path], tmp_path / "report.html")
    numbers = json.loads(page.with_suffix(".json").read_text())
    table = next(t for t in numbers["tables"] if t["name"] == "table1_importance")
    assert [group["scale"] for group in table["groups"]] == ["paper", "smoke, bf16"]
    rows = table["groups"][1]["rows"]
    gaps = {row["row"]: row["cells"]["base"]["ours"]["difference"] for row in rows}
    assert gaps["softmax"] is None
    assert gaps["scaled"]["mean"] == -10.0
    assert {verdict["scale"] for verdict in numbers["verdicts"]} == {"smoke, bf16"}
    (other,) = numbers["others"]
    assert other["trained"].endswith(", bf16")
    text = page.read_text()
    assert "smoke, bf16" in text
    assert "smoke, bf16" in page.with_suffix(".md").read_text()
