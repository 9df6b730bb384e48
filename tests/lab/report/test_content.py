"""All that a report shows."""

from dataclasses import replace
from pathlib import Path

from scalednl.lab.config import FolderConfig
from scalednl.lab.config.folder import FolderFacts
from scalednl.lab.recipes import find_recipe
from scalednl.lab.report.content import SET_ASIDE, build_content
from tests.lab.report.builders import cell_experiment, write_cell, write_run

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
