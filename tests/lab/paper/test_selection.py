"""Parts of tables."""

import re

import pytest

from scalednl.errors import UsageError
from scalednl.lab.paper.artefacts import artefacts, find_artefacts
from scalednl.lab.paper.grids import Artefact
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.paper.selection import by_prefix, cell_values, select


def _select(names: str, scale: str, *only: str) -> list[Artefact]:
    return select(find_artefacts(names.split()), SCALES[scale], only)


def _places(artefact: Artefact) -> set[tuple[str, str, str]]:
    return {(cell.setting.data, cell.row, cell.column) for cell in artefact.cells}


def test_cells_with_all_values_are_kept() -> None:
    """Values of one key are alternatives, keys are conditions, and the part is written down."""
    (part,) = _select("table1", "lite", "data=cifar10", "view=base,direction", "view=magnitude")
    columns = ("base", "magnitude", "direction")
    assert _places(part) == {("cifar10", row, c) for row in ("softmax", "scaled") for c in columns}
    assert part.part == "data=cifar10 view=base,direction,magnitude"
    (less,) = _select("table1", "lite", "data=cifar10", "view=direction", "attention=scaled")
    assert _places(less) == {("cifar10", "scaled", "direction")}


@pytest.mark.parametrize(
    ("name", "scale", "only", "cells"),
    [
        ("table4", "lite", "network=preresnet20", 4),
        ("table4", "lite", "network=preresnet56", 4),
        ("table4", "lite", "network=preresnet32", 2),
        ("table1", "smoke", "data=pairs", 6),
        ("table1", "smoke", "data=cifar10", 6),
        ("table3", "paper", "heads=0", 4),
        ("table3", "paper", "heads=4", 4),
        ("table3", "paper", "column=1 head", 4),
        ("table2", "smoke", "init=0", 2),
        ("table2", "smoke", "init=he", 2),
        ("table2", "smoke", "init=1e-2", 2),
        ("figure2", "smoke", "embed-channels=16", 2),
        ("figure2", "smoke", "embed=16,8", 4),
        ("control_no", "smoke", "scale=False", 1),
        ("control_direction", "smoke", "column=direction, 1", 1),
        ("control_position", "smoke", "position=true", 3),
        ("evidence", "lite", "view=magnitude", 4),
    ],
)
def test_what_cells_are_chosen_by(name: str, scale: str, only: str, cells: int) -> None:
    """The paper's names and those of the miniature, defaults as their values, numbers as numbers.

    Zero heads are no blocks, and the name of a column may have a comma.
    """
    assert sum(len(part.cells) for part in _select(name, scale, only)) == cells


def test_every_value_selects_the_cells_that_have_it() -> None:
    """Whatever cells have can be asked for, and those that have it are what is found."""
    for name, artefact in artefacts().items():
        placed = artefact.trainings(SCALES["lite"])
        described = [(cell, cell_values(cell, experiment)) for cell, experiment in placed]
        pairs = {(key, value) for _, have in described for key in have for value in have[key]}
        for key, value in pairs:
            (part,) = _select(name, "lite", f"{key}={value}")
            having = [cell for cell, have in described if value in have.get(key, ())]
            assert list(part.cells) == having, (name, key, value)


def test_tables_without_such_cells_are_left_out() -> None:
    """Of several tables those remain that have cells of the part; without a filter all do."""
    parts = _select("table1 table3 figure2", "smoke", "view=direction")
    assert [part.name for part in parts] == ["table1_importance"]
    every = find_artefacts(["all"])
    assert select(every, SCALES["smoke"], ()) == every


@pytest.mark.parametrize(
    ("only", "sentence"),
    [
        (
            ["network=preresnet110"],
            "no cell of table1_importance at the scale lite has network=preresnet110; did you mean "
            "'preresnet20' or 'preresnet56'? network is one of preresnet20, preresnet56",
        ),
        (["attention=scaled,sotfmax"], "did you mean 'softmax'? attention is one of softmax, scal"),
        (["view=xyz"], "has view=xyz; view is one of base, magnitude, direction"),
        (["heads="], "has heads=; heads is one of 1"),
        (["colour=red"], "--only knows no 'colour': cells of table1_importance at the scale lite"),
        (["no=3"], "'no' could be norm, norm_init: write more of the name"),
        (
            ["init=he", "attention=softmax"],
            "has all of init=he attention=softmax: leave one of them out",
        ),
    ],
)
def test_what_matches_nothing_is_one_sentence(only: list[str], sentence: str) -> None:
    """It repeats what was asked for and has the values that exist."""
    with pytest.raises(UsageError, match=re.escape(sentence)):
        _select("table1", "lite", *only)


def test_beginnings_of_names() -> None:
    """A complete name wins over longer ones; an empty text is no beginning."""
    assert by_prefix("norm", ["norm_init", "norm"]) == "norm"
    assert by_prefix("norm_", ["norm_init", "norm"]) == "norm_init"
    assert by_prefix("", ["norm"]) is None
    assert by_prefix("x", ["norm"]) is None
