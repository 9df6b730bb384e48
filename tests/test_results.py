"""Pages, figures and records of results are complete, and those of the runs."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scalednl.lab.records.attention import read_attention
from scalednl.lab.records.run import RunFolder
from scalednl.lab.records.runs import read_run
from scripts.parts import with_parts
from scripts.result_tables import AGAIN, REPEATED, RUNS
from scripts.results import PAGES, collect, figures, lend_attention, parts
from scripts.two_stages import two_stages_table
from scripts.weights import RECORDS
from tests.lab.training.builders import SETTINGS, small
from tests.recorded import RECORDED, WITH_ATTENTION


@pytest.mark.parametrize("name", PAGES)
def test_pages_show_the_records(name: str) -> None:
    """README and docs/results.md are what `make results` writes from the records."""
    text = PAGES[name].read_text(encoding="utf-8")
    assert with_parts(text, parts(name)) == text, "run `make results`"


def test_figures_show_the_records() -> None:
    """The figures of docs/results.md are what `make results` draws from the records."""
    for path, figure in figures().items():
        assert path.read_text(encoding="utf-8") == figure, "run `make results`"


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_a_record_has_its_origin_and_predictions(path: Path) -> None:
    """Every run has a commit, a result, and predictions that no folder of a machine stands in."""
    run = read_run(path)
    assert run.has_ended, run.note
    assert run.origin.commit
    if run.state == "finished":
        assert RunFolder(path).read_predictions() is not None
    for name in ("config.json", "result.json"):
        assert '"/' not in (path / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", WITH_ATTENTION, ids=lambda path: path.name)
def test_a_record_of_attention_belongs_to_its_run(path: Path) -> None:
    """With unchanged maps the network has the run's error, or that of its second training."""
    record = read_attention(path / "attention")
    assert record is not None
    assert record.ablations is not None
    again = AGAIN / path.name
    run = read_run(again if again.is_dir() else path)
    assert (record.seed, record.ablations.images) == (run.seed, run.setup.test_images)
    assert record.ablations.error_pct["unchanged"] == run.last_error


@pytest.mark.parametrize("path", sorted(REPEATED.iterdir()), ids=lambda path: path.name)
def test_a_repeated_run_has_the_same_bits(path: Path) -> None:
    """Later code on the same model of processor: losses, errors, predictions and weights."""
    new, old = read_run(path), read_run(RUNS / path.name)
    assert new.experiment == old.experiment
    assert new.origin.commit != old.origin.commit
    assert new.origin.machine == old.origin.machine
    first, second = (
        [replace(epoch, seconds=0, images_per_second=0) for epoch in run.epochs]
        for run in (new, old)
    )
    assert first == second
    assert new.result is not None
    assert old.result is not None
    assert new.result.weights_sha256 == old.result.weights_sha256 is not None
    predicted, before = (RunFolder(run.path).read_predictions() for run in (new, old))
    assert predicted is not None
    assert before is not None
    assert np.array_equal(predicted, before)


def test_a_second_training_lends_its_attention(tmp_path: Path) -> None:
    """Only to the run of its name, and only where that has none."""
    (source,) = WITH_ATTENTION[:1]
    again, runs = tmp_path / "again", tmp_path / "runs"
    for folder in (again / "one", again / "two", runs / "two"):
        shutil.copytree(source / "attention", folder / "attention")
    (runs / "one").mkdir(parents=True)
    kept = runs / "two" / "attention" / "attention.json"
    kept.write_text("{}")
    assert lend_attention(again, runs) == 1
    assert read_attention(runs / "one" / "attention") == read_attention(source / "attention")
    assert kept.read_text() == "{}"
    assert lend_attention(again, runs) == 0


def test_collecting_takes_what_has_ended(tmp_path: Path) -> None:
    """Records of finished runs are copied; checkpoints, weights and unfinished runs are not."""
    from scalednl.lab.training.run import run

    source, target = tmp_path / "from", tmp_path / "to"
    run(small(epochs=1), source / "done", SETTINGS, quiet=True)
    run(small(epochs=1, seed=1), source / "cut", SETTINGS, quiet=True)
    result = json.loads((source / "cut" / "result.json").read_text())
    (source / "cut" / "result.json").write_text(json.dumps({**result, "status": "interrupted"}))
    (source / "empty").mkdir()
    assert collect(source, target) == 1
    assert {path.name for path in target.iterdir()} == {"done"}
    assert {path.name for path in (target / "done").iterdir()} == set(RECORDS)
    assert collect(source, target) == 1


def test_two_stages_are_in_order(tmp_path: Path) -> None:
    """The first stage comes first, whatever its folder is called; errors are those recorded."""
    from scalednl.lab.training.run import run

    assert two_stages_table(tmp_path / "none") == "No run has finished yet."
    first, second = small(blocks=0, epochs=1), small(epochs=1, finetune=True)
    run(first, tmp_path / "z", SETTINGS, quiet=True)
    weights = str(tmp_path / "z")
    run(replace(second, weights=weights), tmp_path / "a", SETTINGS, quiet=True)
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in two_stages_table(tmp_path).splitlines()[2:]
    ]
    errors = [f"{read_run(tmp_path / name).last_error:.1f}" for name in ("z", "a")]
    assert [(row[0], row[1], row[-1]) for row in table] == [
        ("first", "no blocks", errors[0]),
        ("second", "scaled, 1 block, 4 heads", errors[1]),
    ]
