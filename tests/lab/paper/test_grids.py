"""Grids of trainings."""

from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.grids import Artefact, Cell, OwnAttention, paper_setting
from scalednl.lab.paper.scales import SCALES
from tests.own_attentions import registered


def test_a_setting_is_that_of_table_1_unless_it_says_otherwise() -> None:
    """PreResNet-56 with one head; options are sorted, so equal settings are equal."""
    one = paper_setting("cifar10", "scaled", view="direction", init=0.01)
    two = paper_setting("cifar10", "scaled", init=0.01, view="direction")
    assert one == two
    assert (one.network, one.heads, one.embed_share) == ("preresnet56", 1, 1)
    assert paper_setting("cifar10", "scaled", init=0.0).is_position_only
    assert not one.is_position_only


def test_a_grid_has_the_trainings_that_a_scale_has() -> None:
    """Cells without a training are left out; columns keep the order of their first cells."""
    cells = tuple(
        Cell("scaled", column, paper_setting(data, "scaled"))
        for column, data in (("b", "cifar10"), ("a", "tiny-imagenet"), ("b", "cifar100"))
    )
    grid = Artefact("grid", "", "", cells)
    assert grid.columns == ("b", "a")
    found = grid.trainings(SCALES["lite"])
    assert [(cell.column, experiment.data) for cell, experiment in found] == [
        ("b", "cifar10"),
        ("b", "cifar100"),
    ]


def test_inferred_settings_are_marked() -> None:
    """Marks come from the provenance alone: a grid without an entry there has none."""
    marked = artefacts()["table3_heads"]
    bare = Artefact(
        marked.name, "", "", tuple(Cell(c.row, c.column, c.setting) for c in marked.cells)
    )
    again = bare.with_marks()
    assert [cell.inferred for cell in again.cells] == [cell.inferred for cell in marked.cells]
    assert sum(bool(cell.inferred) for cell in again.cells) == 12
    unknown = Artefact("unknown", "", "", bare.cells).with_marks()
    assert unknown.inferred == ""
    assert not any(cell.inferred for cell in unknown.cells)


def test_an_attention_of_a_users_own_stands_beside_scaled() -> None:
    """In every cell of scaled blocks but those with options of theirs, at every scale."""
    own = OwnAttention("sigmoid", "sigmoid=0123456789ab", "sigmoid")
    with registered():
        for name, table in artefacts((own,)).items():
            before = artefacts()[name]
            added = table.cells[len(before.cells) :]
            plain = [cell for cell in before.cells if cell.setting.attention == "scaled"]
            options = [dict(cell.setting.options) for cell in plain]
            kept = [not {"scale", "center", "reference_pixels"} & one.keys() for one in options]
            assert len(added) == sum(kept)
            assert {cell.setting.attention for cell in added} <= {"sigmoid"}
            assert all(cell.printed is None for cell in added)
            for scale in SCALES.values():
                for cell, experiment in table.trainings(scale):
                    if cell in added and not cell.setting.is_position_only:
                        assert experiment.block.attention == "sigmoid"
                        assert experiment.code == (own.code,)
        one = artefacts((own,))["table1_importance"]
        assert {cell.row for cell in one.cells} == {"softmax", "scaled", "sigmoid"}
        assert artefacts((own,))["table4_backbones"].columns == ("softmax", "scaled", "sigmoid")
