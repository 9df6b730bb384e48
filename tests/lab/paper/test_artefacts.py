"""The grids of trainings behind the paper's tables and figures."""

import pytest

from scalednl.errors import UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.paper.artefacts import artefacts, find_artefacts
from scalednl.lab.paper.scales import SCALES, run_name
from scalednl.lab.paper.tables import printed


@pytest.mark.parametrize(
    "name", ["table1_importance", "table2_initialization", "table3_heads", "table4_backbones"]
)
def test_every_printed_error_is_a_cell(name: str) -> None:
    """The cells of a table hold exactly the errors that the paper prints there."""
    wanted = [error for row in printed(name)["rows"] for error in row["error"]]
    assert [cell.printed for cell in artefacts()[name].cells] == wanted


@pytest.mark.parametrize("scale", SCALES)
def test_shared_cells_are_one_training(scale: str) -> None:
    """Equal trainings of different tables are equal experiments, with one name for their run."""
    names: dict[str, Experiment] = {}
    cells: dict[str, Experiment] = {}
    count = 0
    for artefact in artefacts().values():
        for _, experiment in artefact.trainings(SCALES[scale]):
            count += 1
            assert names.setdefault(run_name(experiment), experiment) == experiment
            assert cells.setdefault(experiment.cell, experiment) == experiment
    assert len(names) == len(cells) < count


def test_the_paper_scale_trains_all_that_is_printed() -> None:
    """In full, no cell is left out, and seeds are the paper's."""
    paper = SCALES["paper"]
    for artefact in artefacts().values():
        if artefact.name != "control_depth":
            assert len(artefact.trainings(paper)) == len(artefact.cells)
    seeds = {
        cell.setting.data: paper.seeds_of(cell.setting)
        for cell in artefacts()["table4_backbones"].cells
    }
    assert seeds == {"cifar10": 10, "cifar100": 10, "tiny-imagenet": 3}


def test_names_are_found_or_guessed() -> None:
    """`all` and `controls` are groups; a near miss is told what it may have meant."""
    assert len(find_artefacts(["all", "table3_heads"])) == len(artefacts())
    assert all(artefact.is_control for artefact in find_artefacts(["controls"]))
    with pytest.raises(UsageError, match="did you mean 'table3_heads'"):
        find_artefacts(["tables3_heads"])
    with pytest.raises(UsageError, match="did you mean 'table1'"):
        find_artefacts(["tabel1"])
    with pytest.raises(UsageError, match="use one of table1_importance"):
        find_artefacts(["zzzz"])


def test_a_unique_beginning_is_a_name() -> None:
    """`table1` is enough; of several that begin alike all are listed."""
    assert [one.name for one in find_artefacts(["table1", "table1_importance"])] == [
        "table1_importance"
    ]
    assert len(find_artefacts(["evidence"])) > len(find_artefacts(["evidence_01"])) == 1
    with pytest.raises(
        UsageError, match="'figure' could be figure1_attention_maps, figure2_embedding_channels: "
    ):
        find_artefacts(["figure"])
    with pytest.raises(UsageError, match="no table or figure is called ''"):
        find_artefacts([""])
