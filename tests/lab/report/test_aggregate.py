"""The runs of one training together."""

from dataclasses import replace
from pathlib import Path

import pytest

from scalednl.config import BlockConfig
from scalednl.lab.config import Experiment
from scalednl.lab.recipes import find_recipe
from scalednl.lab.records.runs import RunRecord, find_runs
from scalednl.lab.report.aggregate import as_softmax, describe_block, outcome, told_apart
from tests.lab.report.builders import write_cell, write_run

SCALED = find_recipe("pairs-scaled")


def _runs(folder: Path, experiment: Experiment, errors: list[float]) -> list[RunRecord]:
    write_cell(folder, experiment, errors)
    return find_runs([folder])


def test_only_finished_runs_enter_the_means(tmp_path: Path) -> None:
    """Diverged and unfinished ones are counted; n is that of the means."""
    write_cell(tmp_path, SCALED, [20.0, 24.0])
    write_run(tmp_path / "diverged", replace(SCALED, seed=5), [90.0], "diverged")
    write_run(tmp_path / "cut", replace(SCALED, seed=6), [1.0], "interrupted")
    found = outcome(find_runs([tmp_path]))
    assert found is not None
    assert (found.n, found.diverged, found.unfinished) == (2, 1, 1)
    assert found.last is not None
    assert found.best is not None
    assert (found.last.mean, found.best.mean) == (22.0, 21.5)
    assert len(found.runs) == 4
    assert outcome([]) is None


def test_the_difference_is_over_common_seeds(tmp_path: Path) -> None:
    """Seeds that only one of both has do not enter it."""
    scaled = _runs(tmp_path / "scaled", SCALED, [20.0, 21.0, 50.0])
    softmax = _runs(tmp_path / "softmax", find_recipe("pairs-softmax"), [25.0, 27.0])
    found = outcome(scaled, softmax)
    assert found is not None
    assert found.difference is not None
    assert (found.difference.mean, found.difference.n) == (-5.5, 2)
    alone = outcome(scaled)
    assert alone is not None
    assert alone.difference is None


def test_the_softmax_twin_differs_in_its_attention() -> None:
    """What only scaled blocks have is left out; softmax and plain networks have no twin."""
    odd = replace(SCALED, block=replace(SCALED.block, scale=False, order="gram", heads=2))
    twin = as_softmax(odd)
    assert twin is not None
    assert (twin.block.attention, twin.block.scale, twin.block.order) == ("softmax", True, "auto")
    assert twin.block.heads == 2
    centred = replace(SCALED, block=replace(SCALED.block, center="keys", reference_pixels=64))
    assert as_softmax(centred) == as_softmax(SCALED)
    assert as_softmax(find_recipe("pairs-softmax")) is None
    assert as_softmax(find_recipe("pairs-plain")) is None


@pytest.mark.parametrize(
    ("experiment", "said"),
    [
        (Experiment(blocks=0), "no blocks"),
        (Experiment(blocks=0, position=True), "no blocks, position only"),
        (SCALED, "scaled, 1 block, 4 heads"),
        (
            Experiment(
                block=BlockConfig(
                    view="direction", heads=1, embed_channels=8, init=0.01, scale=False
                ),
                position=False,
            ),
            "scaled, direction only, 3 blocks, 1 head, 8 embedding channels, init 0.01, "
            "no scaling factor, batch norm starts at 0, no position",
        ),
        (
            Experiment(block=BlockConfig(norm_init=1.0, center="keys+mean"), blocks=1),
            "scaled, 1 block, 4 heads, centred keys plus the mean",
        ),
        (
            Experiment(block=BlockConfig(norm_init=1.0, center="keys", reference_pixels="running")),
            "scaled, 3 blocks, 4 heads, centred keys, reference pixels running",
        ),
        (
            Experiment(
                block=BlockConfig(norm_init=1.0, key_pool="before", key_pool_size=(2, 3)), blocks=1
            ),
            "scaled, 1 block, 4 heads, keys pooled by 2 x 3 before phi and g",
        ),
        (
            Experiment(model="timm:resnet18", block=BlockConfig(norm_init=1.0), at=("a", "b.c")),
            "scaled, 3 blocks, 4 heads, behind a, b.c",
        ),
        (
            Experiment(
                model="mine:build", block=BlockConfig(norm_init=1.0), at=("a",), position=True
            ),
            "scaled, 3 blocks, 4 heads, behind a, position",
        ),
        (Experiment(blocks=0, position=True, dropout=0.3), "no blocks, position only, dropout 0.3"),
        (
            Experiment(block=BlockConfig(norm_init=1.0), dropout=0.25),
            "scaled, 3 blocks, 4 heads, dropout 0.25",
        ),
        (
            Experiment(block=BlockConfig(norm=False, bias=True)),
            "scaled, 3 blocks, 4 heads, no norm, biases",
        ),
        (
            Experiment(block=BlockConfig(norm_init=1.0, bias=("theta", "g"))),
            "scaled, 3 blocks, 4 heads, bias of theta, g",
        ),
    ],
)
def test_blocks_in_words(experiment: Experiment, said: str) -> None:
    """Only what is not usual is named."""
    assert describe_block(experiment) == said


def test_trainings_that_look_alike_are_told_apart() -> None:
    """By the options in which they differ; what makes no difference is not named."""
    first = Experiment(recipe="a", block=BlockConfig(norm_init=1.0), lr=0.05)
    others = [
        replace(first, lr=0.02, recipe="b", seed=1),
        replace(first, block=replace(first.block, order="gram"), recalibrate=5),
    ]
    longer = replace(first, epochs=first.epochs + 1)
    found = told_apart([first, *others, longer])
    assert list(found.values()) == [
        "lr 0.05",
        "lr 0.02",
        "lr 0.05, recalibrate 5",
        "",
    ]


def test_what_makes_no_difference_is_not_named() -> None:
    """Options of blocks that a network does not have, milestones of one-cycle, where images are."""
    plain = Experiment(recipe="a", block=BlockConfig(heads=4), blocks=0, schedule="one-cycle")
    other = replace(plain, block=BlockConfig(heads=1), milestones=(1, 2), position=False, lr=0.05)
    assert list(told_apart([plain, other]).values()) == ["lr 0.1", "lr 0.05"]
    there = replace(plain, data="folder:/home/somebody/photos")
    assert list(told_apart([there, replace(there, lr=0.05)]).values()) == ["lr 0.1", "lr 0.05"]


def test_options_are_called_as_on_the_command_line() -> None:
    """Names and values as they are typed."""
    steps = Experiment(recipe="a", block=BlockConfig(), schedule="steps", milestones=(81, 122))
    other = replace(steps, stage=3, milestones=(3, 4))
    assert list(told_apart([steps, other]).values()) == [
        "stage 2, milestones 81 122",
        "stage 3, milestones 3 4",
    ]


def test_a_chart_names_what_its_title_does_not() -> None:
    """Of the length of training too, which a table has a column for."""
    first = Experiment(recipe="a", block=BlockConfig(), epochs=6)
    found = told_apart([first, replace(first, epochs=7, precision="bf16")], describe_block)
    assert list(found.values()) == ["epochs 6", "epochs 7, precision bf16"]
