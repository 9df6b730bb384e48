"""A report of anything: whatever lies in the folders of strangers, a page comes out of them."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.attacked import COUNTS, LONG, Attacked, Outcome, serving
from tests.hostile.runs import (
    EXPERIMENT,
    FURTHER,
    MAKES_DAMAGED,
    ODD,
    SECRET,
    file_attacks,
    places,
    put,
    write_healthy,
    write_outside,
)
from tests.lab.report.builders import write_run

SECONDS, MEGABYTES = 5, 500
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
FILE_ATTACKS = {name: (file, attack) for name, file, attack in file_attacks()}
FIELDS = ("config.json", "result.json", "epochs.jsonl", "attention/attention.json")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """A process that has imported the report, and no torch."""
    scratch = tmp_path_factory.mktemp("server")
    with serving(scratch, "tests.hostile.targets", "scalednl.lab.report.write") as one:
        yield one


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one run that is well, and beside it another with secrets."""
    write_outside(tmp_path / "outside")
    write_run(tmp_path / "runs" / "fine", EXPERIMENT, [20.0])
    return tmp_path / "runs"


def _page(server: Attacked, folder: Path, **limits: float) -> tuple[Outcome, dict[str, Any]]:
    """The numbers of a folder's page, made within the limits, with the healthy run as it was."""
    out = folder.parent / "out" / "report.html"
    outcome = server.call("tests.hostile.targets:report", folder, out)
    assert outcome.code == 0, outcome
    assert outcome.within(limits.get("seconds", SECONDS), limits.get("megabytes", MEGABYTES)), (
        outcome
    )
    numbers = json.loads(out.with_suffix(".json").read_text())
    runs = {run["name"]: run for run in numbers["runs"]}
    assert (runs["fine"]["state"], runs["fine"]["last"]) == ("finished", 20.0)
    for suffix in (".html", ".md", ".json"):
        text = out.with_suffix(suffix).read_text()
        assert SECRET not in text
        assert "77.125" not in text
    COUNTS["pages made"] += 1
    COUNTS["runs with a reason"] += sum(bool(run["problem"]) for run in runs.values())
    shutil.rmtree(out.parent)
    return outcome, {**numbers, "runs": runs}


def _check_row(name: str, row: dict[str, Any]) -> None:
    file = FILE_ATTACKS[name][0]
    if file in MAKES_DAMAGED and name != "epochs.jsonl-empty":
        assert row["state"] == "damaged", (name, row)
        assert file in row["problem"], (name, row)
    else:
        assert row["state"] in ("finished", "failed"), (name, row)


def test_all_file_attacks_in_one_folder(server: Attacked, folder: Path) -> None:
    """Pipes, devices, links, damage and megabytes of nothing: each run is a row, each once."""
    for seed, (name, (_, attack)) in enumerate(FILE_ATTACKS.items(), 1):
        attack(write_healthy(folder / name, seed), folder.parent / "outside")
    _, numbers = _page(server, folder, seconds=30)
    for name in FILE_ATTACKS:
        _check_row(name, numbers["runs"][name])
    assert len(numbers["runs"]) == 1 + len(FILE_ATTACKS)
    for run in numbers["runs"].values():
        assert str(folder) not in run["problem"], run


@pytest.mark.parametrize("name", list(FILE_ATTACKS)[:: 1 if LONG else 40])
def test_one_file_attack(server: Attacked, folder: Path, name: str) -> None:
    """Alone, each takes at most 5 seconds and 500 MB."""
    FILE_ATTACKS[name][1](write_healthy(folder / "bad"), folder.parent / "outside")
    _check_row(name, _page(server, folder)[1]["runs"]["bad"])


@pytest.mark.parametrize("name", FURTHER)
def test_attention_of_strangers(server: Attacked, folder: Path, name: str) -> None:
    """Links, names, counts and sizes in records of attention never stop the page."""
    FURTHER[name](write_healthy(folder / "bad"), folder.parent / "outside")
    _page(server, folder)


def _link_out(folder: Path) -> None:
    (folder / "linked").symlink_to(folder.parent / "outside" / "run")
    (folder / "all").symlink_to(folder.parent / "outside")


def _links_to_itself(folder: Path) -> None:
    for number in range(40):
        (folder / f"again{number}").symlink_to(folder)


def _deep(folder: Path) -> None:
    for _ in range(120):
        folder = folder / "deeper"
    folder.mkdir(parents=True)
    write_healthy(folder / "run")


def _odd_names(folder: Path) -> None:
    for number, name in enumerate((b"\xff\xfe", b"a\nb", b"<b>", b"-o", b"x" * 250, b".hidden")):
        write_healthy(Path(folder, name.decode("utf-8", "surrogateescape")), number + 1)


def _linked_benchmark(folder: Path) -> None:
    newest = sorted(RESULTS.glob("table3_*.json"))[-1]
    value = put(json.loads(newest.read_text()), ("origin", "machine"), SECRET)
    (folder.parent / "outside" / "table3.json").write_text(json.dumps(value))
    (folder / "table3.json").symlink_to(folder.parent / "outside" / "table3.json")
    (folder / "bench").symlink_to(folder.parent / "outside")


def _long_benchmark(folder: Path) -> None:
    value = json.loads(sorted(RESULTS.glob("orders_*.json"))[-1].read_text())
    row = {**value["rows"][0], "method": "m"}
    row["time"] = {**row["time"], "runs_ms": [1.0]}
    count = (1 << 20) // (len(json.dumps(row)) + 8)
    value["rows"] = [{**row, "width": number + 1} for number in range(count)]
    (folder / "orders.json").write_text(json.dumps(value))


def _many_numbers(folder: Path) -> None:
    value = json.loads(sorted(RESULTS.glob("table3_*.json"))[-1].read_text())
    value["rows"][0]["train_step"]["runs_ms"] = [1] * 340_000
    (folder / "table3.json").write_text(json.dumps(value, separators=(",", ":")))


def _huge_benchmark(folder: Path) -> None:
    value = json.loads(sorted(RESULTS.glob("scaling_*.json"))[-1].read_text())
    value["by_side"] *= 8_000_000 // len(json.dumps(value["by_side"]))
    (folder / "scaling.json").write_text(json.dumps(value))


FOLDERS = {
    function.__name__.strip("_"): function
    for function in (
        *(_link_out, _links_to_itself, _deep, _odd_names, _linked_benchmark),
        *(_long_benchmark, _many_numbers, _huge_benchmark),
    )
}


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_of_strangers(server: Attacked, folder: Path, name: str) -> None:
    """Links between folders, deep and odd ones, and records of benchmarks of any size."""
    FOLDERS[name](folder)
    _, numbers = _page(server, folder)
    if name == "link_out":
        for link in ("linked", "all"):
            assert "not followed" in numbers["runs"][link]["problem"]
    if name == "linked_benchmark":
        assert "table3.json is a link out of the folder" in numbers["damaged_benchmarks"][0]


def _read(path: Path) -> Any:
    """The value of a JSON file, or of the first line of several."""
    text = path.read_text()
    return json.loads(text.splitlines()[0] if path.suffix == ".jsonl" else text)


def test_odd_values_in_every_field(server: Attacked, folder: Path) -> None:
    """A value of any kind in any field of any file: every run is a row, and the page is made."""
    healthy = write_healthy(folder.parent / "healthy")
    ways = [(file, place) for file in FIELDS for place in places(_read(healthy / file))]
    attacks = [(file, place, odd) for file, place in ways for odd in ODD]
    if not LONG:
        attacks = random.Random(0).sample(attacks, 150)
    for first in range(0, len(attacks), 300):
        some = attacks[first : first + 300]
        for number, (file, place, odd) in enumerate(some):
            run = folder / f"run{number:03}"
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(healthy, run)
            config = put(_read(run / "config.json"), ("experiment", "seed"), 1 + number)
            (run / "config.json").write_text(json.dumps(config))
            (run / file).write_text(json.dumps(put(_read(run / file), place, odd)) + "\n")
        runs = _page(server, folder, seconds=15)[1]["runs"]
        assert runs.keys() >= {f"run{number:03}" for number in range(len(some))}
