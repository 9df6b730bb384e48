"""Experiments: what they refuse, their file, and what makes two of them the same training."""

import json
from dataclasses import replace
from typing import Any

import pytest

from scalednl.config import BlockConfig, StackConfig
from scalednl.errors import UsageError
from scalednl.lab.config import Experiment
from scalednl.lab.recipes import find_recipe, recipes
from scalednl.options import Attention, default_init
from tests.own_attentions import registered

CELLS = {
    "cifar10-preresnet56-scaled": "8673ab20107e",
    "cifar100-wrn28_10-softmax": "4e0becdf108f",
    "tiny-preresnet50-scaled-finetune": "9c740fb600e3",
    "cifar10-preresnet20-plain-short": "24c6d5b131ed",
    "cifar100-preresnet32-scaled-short": "5b06797d9f31",
    "10,000 images": "60dad98ea2e0",
}


def test_experiments_survive_their_file_and_name_their_differences() -> None:
    """as_dict and from_dict are inverse; differences are listed by name."""
    for recipe in recipes().values():
        assert Experiment.from_dict(recipe.as_dict()) == recipe
    one, two = find_recipe("pairs-scaled"), find_recipe("pairs-softmax")
    assert "block.attention is softmax, not scaled" in one.differences(two)
    assert one.digest != two.digest


def test_a_cell_ignores_what_does_not_matter() -> None:
    """Seed, name, order and unused options keep the cell; whatever changes results changes it."""
    plain = Experiment(data="cifar10", blocks=0)
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
        replace(blocks, block=replace(blocks.block, center="keys")),
        replace(blocks, block=replace(blocks.block, reference_pixels="running")),
        replace(blocks, blocks=2),
        replace(blocks, stage=1),
    ):
        assert other.cell != blocks.cell


def test_the_size_of_key_pools_counts_unless_it_is_the_default() -> None:
    """2 is left out of files, digests and cells, as in runs from before; (3, 3) is 3 in a cell."""
    pooled = Experiment(block=BlockConfig(key_pool="before"))
    assert "key_pool_size" not in pooled.as_dict()["block"]
    assert pooled.cell == "129c5fb401eb"

    def sized(size: int | tuple[int, ...]) -> Experiment:
        return replace(pooled, block=replace(pooled.block, key_pool_size=size))

    assert sized((2, 2)).cell == pooled.cell
    assert sized((3, 3)).cell == sized(3).cell
    assert len({sized(size).cell for size in (2, 3, (2, 3), (3, 2))}) == 4
    for size in (3, (2, 3)):
        written = json.loads(json.dumps(sized(size).as_dict()))
        assert Experiment.from_dict(written) == sized(size)


def test_dropout_counts_unless_there_is_none() -> None:
    """0 is left out of files, digests and cells, as in runs from before."""
    wide = replace(find_recipe("cifar100-wrn28_10-plain"), seed=3)
    assert "dropout" not in wide.as_dict()
    assert wide.cell == "9be930359bfd"
    dropping = replace(wide, dropout=0.3)
    assert dropping.cell not in {wide.cell, replace(wide, dropout=0.2).cell}
    assert Experiment.from_dict(json.loads(json.dumps(dropping.as_dict()))) == dropping


@pytest.mark.parametrize("attention", ["scaled", "softmax", "mean"])
def test_a_cell_names_the_default_start(attention: Attention) -> None:
    """Leaving the initialisation out and writing the default down are the same training."""
    left_out = Experiment(block=BlockConfig(attention=attention))
    written = Experiment(block=BlockConfig(attention=attention, init=default_init(attention)))
    assert left_out.cell == written.cell


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epochs": 0}, "--epochs must be at least 1, got 0"),
        ({"test_last": 0}, "--test-last must be at least 1, got 0"),
        ({"test_limit": 0}, "--test-limit must be at least 1, got 0"),
        ({"lr": float("nan")}, "--lr must be a finite number, at least 0, got nan"),
        ({"weight_decay": -1e-4}, "--weight-decay must be at least 0, got -0.0001"),
        ({"label_smoothing": 1.0}, "--label-smoothing must be less than 1, got 1.0"),
        ({"dropout": -0.1}, "--dropout must be at least 0, got -0.1"),
        ({"dropout": 1.0}, "--dropout must be less than 1, got 1.0"),
        ({"milestones": (3, 3)}, r"rising order, got \(3, 3\)"),
        ({"milestones": (-1, 3)}, r"rising order, got \(-1, 3\)"),
        ({"accumulate": 5, "batch": 4}, "--accumulate must be at most --batch 4, got 5"),
        ({"blocks": -1}, "--blocks must be at least 0, got -1"),
        ({"stage": 0}, "--stage must be at least 1, got 0"),
        ({"weights": "run"}, "--weights run is for fine-tuning: add --finetune"),
    ],
)
def test_what_cannot_be_trained_is_refused(changes: dict[str, Any], said: str) -> None:
    """The message names the option, what was given and what would work."""
    with pytest.raises(UsageError, match=said):
        Experiment(**changes)


def test_the_stack_is_what_a_network_is_made_from() -> None:
    """Options, number and stage of the blocks in the form of `create_model`."""
    experiment = Experiment(block=BlockConfig(heads=2), blocks=1, stage=3)
    assert experiment.stack == StackConfig(BlockConfig(heads=2), count=1, stage=3)


def test_the_last_epochs_are_tested() -> None:
    """`test_last` counts from the end; None is every epoch."""
    last = Experiment(epochs=5, test_last=2)
    assert [last.is_tested_after(epoch) for epoch in range(5)] == [False] * 3 + [True] * 2
    assert Experiment(epochs=5).is_tested_after(0)


def test_cells_of_finished_runs_stay_the_same() -> None:
    """A cell that changes would train again what has finished: these are fixed."""
    short = find_recipe("cifar10-preresnet20-scaled-short")
    found = {name: find_recipe(name).cell for name in CELLS if name in recipes()}
    found["10,000 images"] = replace(short, limit=10000, epochs=10, test_last=2).cell
    assert found == CELLS


def test_the_code_of_a_users_own_attention_counts() -> None:
    """It is filled in, kept in the file and part of the cell; runs without it are as before."""
    with registered():
        own = find_recipe("pairs-sigmoid")
        (entry,) = own.code
        assert entry.startswith("sigmoid=")
        assert Experiment.from_dict(own.as_dict()) == own
        other = replace(own, code=("sigmoid=000000000000",))
        assert (other.code, other.cell == own.cell) == (("sigmoid=000000000000",), False)
        # The entry goes with the attention, and blocks that are not there have none.
        assert replace(own, block=replace(own.block, attention="scaled")).code == ()
        assert replace(own, blocks=0).code == ()
        file = own.as_dict()
    assert "code" not in find_recipe("pairs-scaled").as_dict()
    with pytest.raises(UsageError, match="no recipe is called 'pairs-sigmoid'"):
        find_recipe("pairs-sigmoid")
    # A record can be read without the code.
    assert Experiment.from_dict(file) == own


def test_networks_from_elsewhere_have_places_and_no_stage() -> None:
    """Options of the other kind are refused; `at` is in the file and the cell where it is given."""
    one = Experiment(model="timm:resnet18", at=("layer2",))
    assert Experiment.from_dict(json.loads(json.dumps(one.as_dict()))) == one
    assert one.cell != replace(one, at=("layer3",)).cell
    assert one.cell == replace(one, position=False).cell != replace(one, position=True).cell
    assert not one.has_position
    assert Experiment().has_position
    assert "at" not in Experiment().as_dict()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"stage": 3}, "--stage 3 is for the paper's networks"),
        ({"dropout": 0.1}, "--dropout 0.1 is for the paper's networks"),
        ({"blocks": 0}, "--at layer2 needs blocks"),
        ({"model": "preresnet20"}, "--at layer2 is for networks that are not the paper's"),
    ]
    for changes, sentence in refused:
        with pytest.raises(UsageError, match=sentence):
            replace(one, **changes)
    replace(one, blocks=0, position=True)


def test_without_blocks_the_attention_does_not_matter() -> None:
    """A run without blocks can be read without the code of the attention that it had."""
    with registered():
        plain = replace(find_recipe("pairs-sigmoid"), blocks=0)
        file = plain.as_dict()
    assert Experiment.from_dict(file) == plain
    assert plain.code == ()
