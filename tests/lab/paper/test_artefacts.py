"""The grids of trainings behind the paper's tables and figures."""

from dataclasses import replace

import pytest

from scalednl.config import NonLocalConfig
from scalednl.errors import UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.paper.artefacts import artefacts, find_artefacts
from scalednl.lab.paper.scales import SCALES, Scale, run_name
from scalednl.lab.paper.tables import printed
from scalednl.options import Attention, default_init


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


def test_a_cell_ignores_what_does_not_matter() -> None:
    """Seed, name, order and unused options keep the cell; whatever changes results changes it."""
    plain = Experiment(data="cifar10", block=replace(Experiment().block, blocks=0))
    assert replace(plain, block=replace(plain.block, heads=2)).cell == plain.cell
    blocks = Experiment()
    same = replace(
        blocks, seed=3, recipe="x", position=True, block=replace(blocks.block, order="gram")
    )
    assert same.cell == blocks.cell
    for other in (
        replace(blocks, position=False),
        replace(blocks, lr=0.2),
        replace(blocks, block=replace(blocks.block, heads=2)),
    ):
        assert other.cell != blocks.cell


def test_names_are_found_or_guessed() -> None:
    """`all` and `controls` are groups; a near miss is told what it may have meant."""
    assert len(find_artefacts(["all", "table3_heads"])) == len(artefacts())
    assert all(artefact.is_control for artefact in find_artefacts(["controls"]))
    with pytest.raises(UsageError, match="did you mean 'table3_heads'"):
        find_artefacts(["table3"])
    with pytest.raises(UsageError, match="use one of table1_importance"):
        find_artefacts(["zzzz"])


@pytest.mark.parametrize("attention", ["scaled", "softmax", "mean"])
def test_a_cell_names_the_default_start(attention: Attention) -> None:
    """Leaving the initialisation out and writing the default down are the same training."""
    left_out = Experiment(block=NonLocalConfig(attention=attention))
    written = Experiment(block=NonLocalConfig(attention=attention, init=default_init(attention)))
    assert left_out.cell == written.cell


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_zero_initialisation_is_the_position_only_control(scale: Scale) -> None:
    """Blocks that never learn are trained once: as the network with the encoding alone."""
    zero = {
        experiment.cell
        for cell, experiment in artefacts()["table2_initialization"].trainings(scale)
        if cell.column == "std=0.0" and cell.setting.data == "cifar10"
    }
    alone = {
        experiment.cell
        for cell, experiment in artefacts()["control_position"].trainings(scale)
        if cell.column == "position only" and cell.setting.data == "cifar10"
    }
    assert zero == alone
    assert len(zero) == 1


def test_names_differ_where_trainings_do() -> None:
    """No two trainings of a scale share a folder."""
    for scale in SCALES.values():
        found = {
            experiment.cell: run_name(experiment)
            for artefact in artefacts().values()
            for _, experiment in artefact.trainings(scale)
        }
        assert len(set(found.values())) == len(found)
