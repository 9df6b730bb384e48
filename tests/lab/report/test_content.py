"""All that a report shows."""

from dataclasses import replace
from pathlib import Path

from scalednl.lab.config import Experiment, FolderConfig
from scalednl.lab.config.folder import FolderFacts
from scalednl.lab.recipes import find_recipe
from scalednl.lab.report.aggregate import MOST_OWN
from scalednl.lab.report.content import SET_ASIDE, build_content
from tests.lab.report.builders import cell_experiment, write_cell, write_run
from tests.own_attentions import registered

BENCH = Path(__file__).parents[3] / "benchmarks" / "results"


def test_counts_are_those_of_the_runs(tmp_path: Path) -> None:
    """States, seconds, and one answer for every verdict."""
    write_cell(tmp_path, find_recipe("pairs-scaled"), [20.0, 21.0])
    write_run(tmp_path / "cut", find_recipe("pairs-plain"), [70.0], "interrupted")
    counts = build_content([tmp_path]).counts
    assert (counts.runs, counts.seconds) == (3, 36.0)
    assert counts.states == {"finished": 2, "interrupted": 1}
    content = build_content([tmp_path], [BENCH])
    assert sum(content.counts.verdicts.values()) == len(content.verdicts)
    assert {section.kind for section in content.costs} == {"table3", "scaling", "orders"}


def test_other_trainings_are_those_in_no_table(tmp_path: Path) -> None:
    """Ordered by data, network and attention, each with its twin's difference."""
    write_cell(tmp_path, cell_experiment("table1_importance", "scaled", "base"), [20.0])
    for name, errors in (("scaled", [20.0, 30.0]), ("softmax", [24.0, 31.0]), ("plain", [75.0])):
        write_cell(tmp_path, find_recipe(f"pairs-{name}"), errors)
    rows = build_content([tmp_path]).others
    assert [row.recipe for row in rows] == ["pairs-plain", "pairs-softmax", "pairs-scaled"]
    scaled = rows[-1]
    assert scaled.ours.difference is not None
    assert scaled.ours.difference.mean == -2.5
    assert scaled.trained == "4 epochs of 5,000 images"
    assert (scaled.seconds, scaled.images_per_second, scaled.parameters) == (12.0, 900.0, 1234)


def test_a_run_that_does_not_count_says_why(tmp_path: Path) -> None:
    """The second run of a seed is set aside; the best epoch is counted from 1."""
    experiment = find_recipe("pairs-scaled")
    write_run(tmp_path / "whole", experiment, [30.0, 10.0, 20.0, 15.0])
    write_run(tmp_path / "cut", experiment, [40.0], "interrupted")
    write_run(tmp_path / "other", replace(experiment, seed=1), [40.0])
    rows = {row.name: row for row in build_content([tmp_path]).runs}
    assert {name: row.problem for name, row in rows.items()} == {
        "whole": "",
        "cut": SET_ASIDE,
        "other": "",
    }
    whole = rows["whole"]
    assert (whole.last, whole.best, whole.best_epoch) == (15.0, 10.0, 2)
    assert (whole.epochs, whole.planned_epochs) == (4, 4)


def test_an_attention_of_a_users_own_has_rows_and_verdicts(tmp_path: Path) -> None:
    """Beside softmax and scaled in the tables, with its difference to softmax, without its code."""
    errors = {"softmax": [30.0, 31.0], "scaled": [28.0, 29.5], "sigmoid": [20.0, 20.5]}
    base = cell_experiment("table1_importance", "scaled", "base")
    for name in ("softmax", "scaled"):
        write_cell(tmp_path, cell_experiment("table1_importance", name, "base"), errors[name])
    with registered():
        block = replace(base.block, attention="sigmoid")
        own = replace(base, recipe="pairs-sigmoid", block=block)
        write_cell(tmp_path, own, errors["sigmoid"])
    content = build_content([tmp_path])
    assert not content.others
    table = next(table for table in content.tables if table.name == "table1_importance")
    (group,) = (group for group in table.groups if group.scale == "smoke")
    cells = {row.row: row.cells["base"] for row in group.rows}
    assert list(cells) == ["softmax", "scaled", "sigmoid"]
    ours = cells["sigmoid"].ours if cells["sigmoid"] else None
    assert ours is not None
    assert ours.last is not None
    assert ours.difference is not None
    assert (ours.last.mean, ours.difference.mean) == (20.25, -10.25)
    verdicts = {one.claim: one for one in content.verdicts}
    for other, mean in (("softmax", 10.25), ("scaled", 8.5)):
        verdict = verdicts[f"sigmoid-beats-{other}-1-head"]
        assert (verdict.mean, verdict.is_primary, verdict.is_ours) == (mean, False, True)
        assert f"sigmoid blocks give a lower error than {other} blocks" in verdict.says


def test_changed_code_is_another_attention(tmp_path: Path) -> None:
    """Two fingerprints of one name are two rows, named by their first letters."""
    base = cell_experiment("table1_importance", "scaled", "base")
    with registered():
        for letters, error in (("aaaaaa000000", 20.0), ("bbbbbb000000", 30.0)):
            block = replace(base.block, attention="sigmoid")
            one = replace(base, recipe="pairs-sigmoid", block=block, code=(f"sigmoid={letters}",))
            write_run(tmp_path / letters, one, [error])
    table = next(t for t in build_content([tmp_path]).tables if t.name == "table1_importance")
    (group,) = (group for group in table.groups if group.scale == "smoke")
    found = {row.row: row.cells["base"] for row in group.rows}
    assert list(found) == ["sigmoid aaaaaa", "sigmoid bbbbbb"]
    means = [
        cell.ours.last.mean for cell in found.values() if cell and cell.ours and cell.ours.last
    ]
    assert means == [20.0, 30.0]


def test_the_tables_have_room_for_few_attentions_of_users_own(tmp_path: Path) -> None:
    """However many names records have, the others are listed below the tables."""
    base = cell_experiment("table1_importance", "scaled", "base")
    values = base.as_dict()
    for number in range(MOST_OWN + 4):
        name = f"own{number:02}"
        block = {**values["block"], "attention": name}
        one = {**values, "block": block, "code": [f"{name}=0123456789ab"]}
        write_run(tmp_path / name, Experiment.from_dict(one), [30.0])
    content = build_content([tmp_path])
    table = next(t for t in content.tables if t.name == "table1_importance")
    (group,) = (group for group in table.groups if group.scale == "smoke")
    assert len(group.rows) == MOST_OWN
    assert len(content.others) == 4


def test_trainings_on_own_images_are_told_apart_by_their_content(tmp_path: Path) -> None:
    """Two seeds of one content share a row wherever the images were; other content has its own."""
    for seed, (path, letters) in enumerate(
        (("/a/pets", "aa"), ("/b/pets", "aa"), ("/a/pets", "b"))
    ):
        found = FolderFacts(letters * 6, 2, 90, 10, (0.5,) * 3, (0.2,) * 3)
        experiment = replace(
            find_recipe("pairs-scaled"),
            data=f"folder:{path}",
            folder=FolderConfig(found=found),
            seed=seed,
        )
        write_run(tmp_path / str(seed), experiment, [20.0 + seed])
    content = build_content([tmp_path])
    names = {row.data: row.ours.n for row in content.others}
    assert names == {"folder:pets-aaaaaa": 2, "folder:pets-bbbbbb": 1}
    assert {run.data for run in content.runs} == names.keys()
