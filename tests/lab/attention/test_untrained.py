"""The untrained network is the one that training started from."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

import scalednl
from scalednl.config import BlockConfig
from scalednl.errors import UsageError
from scalednl.lab.attention.source import open_source
from scalednl.lab.attention.untrained import untrained
from scalednl.lab.records.run import RunFolder, RunSetup
from scalednl.lab.training.setup import initial_model
from tests.lab.attention.builders import made_run
from tests.lab.training.builders import small
from tests.support import assert_close


def test_it_is_the_start_of_the_run(tmp_path: Path) -> None:
    """Every parameter is that of `initial_model` for the run's recipe and seed."""
    path = made_run(tmp_path / "run")
    experiment = replace(RunFolder(path).read_config()[0], seed=3)
    RunFolder(path).write_config(experiment, RunSetup())
    found = untrained(open_source(path, images=4))
    truth = initial_model(experiment, experiment.pairs.orientations)
    assert (found.seed, found.start) == (3, "initialised with the run's seed 3")
    for (name, value), wanted in zip(
        found.model.named_parameters(), truth.parameters(), strict=True
    ):
        assert torch.equal(value, wanted), name
    other = untrained(open_source(path / "weights.safetensors", images=4, data="pairs"))
    assert other.seed == 0
    assert not torch.equal(
        other.model.get_parameter("stem.weight"), found.model.get_parameter("stem.weight")
    )


def test_batch_norm_has_the_statistics_of_the_scored_images(tmp_path: Path) -> None:
    """The first norm's mean and variance are those of its input over the scored images."""
    source = open_source(made_run(tmp_path / "run"), images=40)
    model = untrained(source).model
    assert not model.training
    with torch.no_grad():
        maps = model.get_submodule("stem")(torch.cat(list(source.scored())))
    norm = model.get_submodule("stages.0.0.bn1")
    assert isinstance(norm, torch.nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert_close(norm.running_mean, maps.mean((0, 2, 3)), 1e-4)
    assert_close(norm.running_var, maps.var((0, 2, 3)), 1e-4)
    assert norm.momentum == 0.1


def test_photos_may_be_too_small(tmp_path: Path) -> None:
    """A photo whose last map has one pixel is one sentence with the option that helps."""
    run, photo = made_run(tmp_path / "run"), tmp_path / "dot.png"
    Image.new("RGB", (4, 4)).save(photo)
    with pytest.raises(UsageError, match="too small, add --resize 8"):
        untrained(open_source(run, photos=[photo]))


@pytest.mark.parametrize("found", [True, False])
def test_a_fine_tuned_run_starts_from_its_backbone(tmp_path: Path, found: bool) -> None:
    """The pretrained backbone is loaded where it is found, and missed by name where it is not."""
    plain = scalednl.create_model("preresnet8", 4)
    weights = tmp_path / "plain.safetensors"
    scalednl.save_model(plain, weights)
    path = made_run(tmp_path / "run")
    block = BlockConfig(norm_init=1.0, order="associative")
    tuned = small(block=block, blocks=2, finetune=True, weights=str(weights))
    RunFolder(path).write_config(tuned, RunSetup())
    if not found:
        weights.unlink()
    start = untrained(open_source(path, images=4))
    assert torch.equal(start.model.get_parameter("stem.weight"), plain.stem.weight) == found
    assert ("was not found" in start.start) != found
