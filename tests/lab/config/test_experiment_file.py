"""Files of experiments: other contents, older forms, and names that come from elsewhere."""

import copy
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from scalednl.attentions import ATTENTIONS
from scalednl.config import BlockConfig
from scalednl.lab.config import Experiment
from scalednl.lab.recipes import find_recipe
from tests.own_attentions import registered


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": None}, "Expected `int`, got `null`"),
        ({"block": {"heads": 3, "embed_channels": 8}}, "heads=3 does not divide"),
        ({"colour": 3}, "colour is not an option of this version"),
        ({"block": {"colour": 3}}, "block.colour is not an option of this version"),
        ({"block": {"blocks": 3}}, "block.blocks is not an option of this version"),
        ({"blocks": "three"}, "Expected `int`, got `str`"),
        ({"batch": 2**63}, "batch is too large"),
        ({"epochs": 0}, "--epochs must be at least 1, got 0"),
    ],
)
def test_a_file_with_other_contents_is_a_sentence(change: dict[str, Any], said: str) -> None:
    """Unknown names, wrong types and impossible values are all ValueErrors."""
    with pytest.raises(ValueError, match=said):
        Experiment.from_dict({**Experiment().as_dict(), **change})


@pytest.mark.parametrize("name", ["cifar10-preresnet20-plain-short", "pairs-scaled"])
def test_older_files_have_the_stack_inside_the_block(name: str) -> None:
    """`block.blocks` and `block.stage` are read as today's `blocks` and `stage`, digest and all."""
    recipe = replace(find_recipe(name), stage=1)
    values = recipe.as_dict()
    values["block"] |= {"blocks": values.pop("blocks"), "stage": values.pop("stage")}
    for later in ("center", "reference_pixels"):
        del values["block"][later]
    before = copy.deepcopy(values)
    found = Experiment.from_dict(values)
    assert found == recipe
    assert (found.digest, found.cell) == (recipe.digest, recipe.cell)
    assert values == before


@pytest.mark.parametrize("data", ["cifar10", "pairs", "recall"])
def test_a_file_has_the_options_of_its_own_images(data: str) -> None:
    """Options of generated data sets that are not used are left out, and ignored when read."""
    experiment = Experiment(data=data)
    values = experiment.as_dict()
    assert values.keys() & {"pairs", "recall"} == {data} - {"cifar10"}
    old = {"pairs": {"odd": 1}} if data == "cifar10" else {}
    assert Experiment.from_dict({**values, **old}) == experiment
    assert (experiment.generated is None) == (data == "cifar10")
    del values["lr"]
    with pytest.raises(ValueError, match="lr is missing"):
        Experiment.from_dict(values)


@pytest.mark.parametrize("code", [["../x=1"], ["plain=1"], [3], "sigmoid", [["a"]], [None]])
def test_odd_entries_of_code_declare_nothing(code: object) -> None:
    """A file cannot make other names known than those of attentions."""
    known = set(ATTENTIONS)
    values = {**find_recipe("pairs-scaled").as_dict(), "code": code}
    with suppress(ValueError):
        assert Experiment.from_dict(values).code == ()
    assert set(ATTENTIONS) == known


def test_a_record_declares_its_own_attention_alone() -> None:
    """Other names in its code stay unknown, and declared ones are not suggested."""
    with registered():
        values = find_recipe("pairs-sigmoid").as_dict()
    values["code"] += [f"name{number}=0123456789ab" for number in range(50)]
    Experiment.from_dict(values)
    assert not any(name.startswith("name") for name in ATTENTIONS)
    with pytest.raises(ValueError, match="use 'scaled', 'softmax' or 'mean'; one of your own"):
        BlockConfig(attention="sigmoidd")
