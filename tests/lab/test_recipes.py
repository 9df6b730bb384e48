"""The recipes are the paper's, and every one of them makes a network."""

import pytest
import torch

from scalednl.errors import UsageError
from scalednl.lab.paper.costs import num_classes
from scalednl.lab.recipes import describe, find_recipe, recipes
from scalednl.models.registry import create_model


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_makes_its_network(name: str) -> None:
    """Names say data, network and attention; the network exists and has the blocks."""
    recipe = recipes()[name]
    data, *network, attention = name.removesuffix(_variant(name)).split("-")
    assert recipe.recipe == name
    assert recipe.data.startswith(data)
    assert all(recipe.model.startswith(part) for part in network)
    with torch.device("meta"):
        model = create_model(recipe.model, num_classes(recipe), recipe.stack, recipe.position)
    blocks = [part for part in model.stack or () if hasattr(part, "attention")]
    if attention == "plain":
        assert not blocks
    else:
        assert {block.attention for block in blocks} == {attention}
        assert len(blocks) == (3 if recipe.generated is None else 1)
        assert {block.heads for block in blocks} == {4}
    assert f"{recipe.epochs} epochs" in describe(recipe)


def _variant(name: str) -> str:
    for variant in ("-short", "-pretrain", "-finetune", "-wd5e4"):
        if name.endswith(variant):
            return variant
    return ""


def test_cifar_is_trained_as_printed() -> None:
    """164 epochs, SGD 0.1 divided by 10 at 81 and 122, momentum 0.9, decay 1e-4, batch 128."""
    for data in ("cifar10", "cifar100"):
        for network in ("preresnet32", "preresnet56", "preresnet110", "wrn28_10"):
            recipe = find_recipe(f"{data}-{network}-scaled")
            found = (recipe.epochs, recipe.lr, recipe.milestones, recipe.momentum, recipe.batch)
            assert found == (164, 0.1, (81, 122), 0.9, 128)
            assert recipe.weight_decay == 1e-4
            assert recipe.augment
    assert find_recipe("cifar100-wrn28_10-scaled-wd5e4").weight_decay == 5e-4


def test_tiny_imagenet_is_trained_in_two_stages() -> None:
    """100 epochs without blocks, divided every 30; then 60 from 0.01, divided at 40."""
    first = find_recipe("tiny-preresnet50-plain-pretrain")
    assert (first.epochs, first.lr, first.milestones) == (100, 0.1, (30, 60, 90))
    second = find_recipe("tiny-preresnet50-softmax-finetune")
    assert (second.epochs, second.lr, second.milestones) == (60, 0.01, (40,))
    assert second.finetune
    assert second.weight_decay == 1e-4


def test_short_recipes_say_so() -> None:
    """Whatever is not the paper's is named as such."""
    for name, recipe in recipes().items():
        ours = name.endswith("-short") or name.startswith(("pairs", "recall"))
        assert ("not the paper's" in describe(recipe)) == ours
    printed = describe(find_recipe("cifar100-wrn28_10-scaled"))
    assert "in the paper's tables" in printed
    assert "not in" not in printed
    for name in ("cifar10-wrn28_10-scaled", "cifar10-preresnet20-scaled"):
        assert "not in the paper's tables" in describe(find_recipe(name))


def test_a_near_miss_is_told_what_it_meant() -> None:
    """A typo gets suggestions, nonsense the list."""
    with pytest.raises(UsageError, match="did you mean 'cifar10-preresnet56-scaled'"):
        find_recipe("cifar10-preresnet56-scale")
    with pytest.raises(UsageError, match="scalednl train --list"):
        find_recipe("xyzzy")
