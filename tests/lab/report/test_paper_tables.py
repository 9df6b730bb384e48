"""The paper's tables with our numbers."""

from pathlib import Path

from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.records.runs import by_cell, find_runs
from scalednl.lab.report.paper_tables import PaperTable, cells_in_tables, paper_table
from tests.lab.charts.builders import texts
from tests.lab.report.builders import cell_experiment, write_cell


def _table(folder: Path, name: str) -> PaperTable:
    return paper_table(artefacts()[name], by_cell(find_runs([folder])))


def test_a_miniature_stands_below_the_paper_and_names_what_it_replaces(tmp_path: Path) -> None:
    """Printed numbers are in the paper's group; ours are compared over common seeds."""
    for row, errors in {"softmax": [30.0, 31.0], "scaled": [20.0, 22.0]}.items():
        write_cell(tmp_path, cell_experiment("table1_importance", row, "base"), errors)
    table = _table(tmp_path, "table1_importance")
    paper, smoke = table.groups
    assert (paper.scale, paper.has_ours, smoke.scale, smoke.has_ours) == (
        *("paper", False, "smoke"),
        True,
    )
    printed = [row.cells["base"] for row in paper.rows]
    assert printed[0] is not None
    assert printed[0].printed == 5.73
    softmax, scaled = smoke.rows
    assert (scaled.data, scaled.network) == ("pairs", "preresnet8")
    assert (scaled.in_place_of_data, scaled.in_place_of_network) == ("CIFAR-10", "PreResNet-56")
    cell, other = scaled.cells["base"], softmax.cells["base"]
    assert cell is not None
    assert cell.printed is None
    assert cell.ours is not None
    assert cell.ours.difference is not None
    assert cell.ours.difference.mean == -9.5
    assert other is not None
    assert other.ours is not None
    assert other.ours.difference is None
    missing = scaled.cells["direction"]
    assert missing is not None
    assert missing.ours is None


def test_only_scaled_blocks_have_centred_keys(tmp_path: Path) -> None:
    """A training with centred keys is not compared with softmax blocks; one without is."""
    usual = "scaled, 1 block, 4 heads"
    columns = {
        "keys as they are": (usual, True),
        "centred keys": (f"{usual}, centred keys", False),
        "centred keys + mean": (f"{usual}, centred keys plus the mean", False),
    }
    for column in columns:
        experiment = cell_experiment("control_centred_keys", "scaled", column)
        write_cell(tmp_path, experiment, [20.0, 22.0])
    write_cell(tmp_path, cell_experiment("table3_heads", "softmax", "4 heads"), [30.0, 31.0])
    (row,) = _table(tmp_path, "control_centred_keys").groups[-1].rows
    for column, said in columns.items():
        cell = row.cells[column]
        assert cell is not None
        assert cell.ours is not None
        assert (cell.trains, cell.ours.difference is not None) == said


def test_inferred_settings_have_a_mark_and_its_reason(tmp_path: Path) -> None:
    """Every mark of a cell is explained, and every explanation is used."""
    for name, artefact in artefacts().items():
        table = _table(tmp_path, name)
        cells = [c for g in table.groups for row in g.rows for c in row.cells.values() if c]
        used = {cell.mark for cell in cells} | {table.mark}
        assert used - {""} == set(table.notes), name
        assert table.columns == artefact.columns


def test_without_runs_only_the_papers_group_is_there(tmp_path: Path) -> None:
    """It has every cell that is printed."""
    table = _table(tmp_path, "table3_heads")
    (group,) = table.groups
    assert (group.scale, table.has_ours, table.has_printed) == ("paper", False, True)
    printed = [c.printed for row in group.rows for c in row.cells.values() if c]
    assert sum(value is not None for value in printed) == 16


def test_figure_2_is_drawn_from_the_table(tmp_path: Path) -> None:
    """One line per attention, fewest channels first, values under the pointer."""
    for column, error in (("C", 20.0), ("C/4", 26.0)):
        experiment = cell_experiment("figure2_embedding_channels", "scaled", column)
        write_cell(tmp_path, experiment, [error, error + 1])
    table = _table(tmp_path, "figure2_embedding_channels")
    (figure,) = table.charts
    places = texts(figure.chart)
    assert places["C/8"][0] < places["C/4"][0] < places["C"][0]
    assert "<title>scaled: 20.5</title>" in figure.chart
    assert "<title>scaled: 26.5</title>" in figure.chart
    assert _table(tmp_path, "table1_importance").charts == ()


def test_cells_of_tables_are_known() -> None:
    """So that other trainings can be listed by themselves."""
    known = cells_in_tables({})
    for _, experiment in artefacts()["control_gamma"].trainings(SCALES["lite"]):
        assert experiment.cell in known


def test_a_part_of_a_table_is_called_one(tmp_path: Path) -> None:
    """A group counts the trainings that have a result, until all have one; plans do not matter."""
    assert not any(group.part for group in _table(tmp_path, "table1_importance").groups)
    wanted = artefacts()["table1_importance"].trainings(SCALES["smoke"])
    for number, (_, experiment) in enumerate(wanted, 1):
        write_cell(tmp_path, experiment, [20.0])
        paper, smoke = _table(tmp_path, "table1_importance").groups
        said = f"A part of the table at the scale smoke: {number} of 6 trainings have a result."
        assert smoke.part == ("" if number == 6 else said)
        assert paper.part == ""
