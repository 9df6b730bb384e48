"""From a cell of the paper to an experiment."""

from dataclasses import replace

import pytest

from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.scales import SCALES, PaperSetting, Scale, run_name


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


def test_a_miniature_names_what_it_is() -> None:
    """smoke: a small network on generated images; lite: fewer images, and other weight decay."""
    setting = PaperSetting("cifar10", "preresnet56", "scaled", heads=2, embed_share=4)
    smoke, lite, paper = (SCALES[name].experiment(setting) for name in ("smoke", "lite", "paper"))
    assert smoke is not None
    assert (smoke.data, smoke.model, smoke.limit) == ("pairs", "preresnet8", 4000)
    assert (smoke.block.heads, smoke.block.embed_channels) == (2, 8)
    assert lite is not None
    assert (lite.data, lite.model, lite.limit, lite.epochs) == ("cifar10", "preresnet20", 10000, 10)
    assert (lite.block.embed_channels, lite.block.norm_init) == (8, 1.0)
    assert paper is not None
    assert (paper.model, paper.limit, paper.epochs) == ("preresnet56", None, 164)
    assert (paper.block.embed_channels, paper.block.norm_init) == (32, 0.0)


def test_what_a_scale_does_not_have_is_none() -> None:
    """Other data sets, other networks, and pairs of both that are left out."""
    lite = SCALES["lite"]
    for data, network in (("tiny-imagenet", "preresnet50_tiny"), ("cifar10", "preresnet110")):
        assert lite.experiment(PaperSetting(data, network, "scaled")) is None
    assert lite.experiment(PaperSetting("cifar10", "preresnet32", "scaled")) is None
    found = lite.experiment(PaperSetting("cifar100", "preresnet32", "scaled"))
    assert found is not None
    assert (found.limit, found.epochs, found.weight_decay) == (None, 12, 1e-4)
    assert found.block.norm_init == 0.0


@pytest.mark.parametrize(
    ("attention", "position", "expected"),
    [
        ("scaled", True, None),
        ("scaled", False, False),
        ("plain", False, None),
        ("plain", True, True),
    ],
)
def test_the_default_position_is_not_written_down(
    attention: str, position: bool, expected: bool | None
) -> None:
    """With blocks the encoding is the default, without them it is not."""
    found = SCALES["paper"].experiment(
        PaperSetting("cifar10", "preresnet56", attention, position=position)
    )
    assert found is not None
    assert found.position is expected


def test_a_run_is_named_after_what_is_changed() -> None:
    """Recipe, network, options of the block, position, images and epochs, decay, seed."""
    base = SCALES["smoke"].experiment(PaperSetting("cifar10", "preresnet56", "scaled"))
    assert base is not None
    changed = replace(
        base,
        model="preresnet14",
        block=replace(base.block, scale=False),
        position=False,
        limit=None,
        epochs=2,
        weight_decay=5e-4,
        seed=3,
    )
    assert run_name(changed) == (
        "pairs-scaled-preresnet14-heads-1-scale-false-no-position-allx2-wd0.0005-seed3"
    )
