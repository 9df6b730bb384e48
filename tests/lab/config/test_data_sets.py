"""Facts of the data sets are consistent, and cover every data set that experiments use."""

import pytest

from scalednl.errors import UsageError
from scalednl.lab.config.data_sets import DATA_SETS, find_data_set
from scalednl.lab.config.generated import GENERATED
from scalednl.lab.recipes import recipes


def test_every_recipe_has_its_data_set() -> None:
    """No recipe uses a data set without facts, and the generated ones are those with options."""
    assert {recipe.data for recipe in recipes().values()} <= DATA_SETS.keys()
    assert {name for name, facts in DATA_SETS.items() if facts.is_generated} == set(GENERATED)


@pytest.mark.parametrize("name", sorted(DATA_SETS.keys() - GENERATED.keys()))
def test_sizes_and_classes(name: str) -> None:
    """Classes have their names and equally many images; crops fit into the images."""
    facts = find_data_set(name)
    assert facts.train_images == 500 * facts.classes or facts.train_images == 5000 * facts.classes
    assert len(set(facts.class_names)) == len(facts.class_names)
    assert len(facts.class_names) in (0, facts.classes)
    assert facts.input_side <= facts.side


def test_an_unknown_name_is_answered_with_a_near_one() -> None:
    """The sentence suggests a name, or lists all."""
    with pytest.raises(UsageError, match="no data set is called 'cifar01'; did you mean 'cifar10'"):
        find_data_set("cifar01")
    with pytest.raises(UsageError, match="use one of cifar10, cifar100, tiny-imagenet"):
        find_data_set("zzz")
