"""Data and network at the start of an experiment."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from scalednl.config import BlockConfig
from scalednl.errors import CommandError, UsageError
from scalednl.lab.config import Experiment, FolderConfig, RecallConfig
from scalednl.lab.data.augment import CentreCrop, PaddedCrop, ResizedCrop
from scalednl.lab.training.devices import make_fabric
from scalednl.lab.training.loop import Trainer
from scalednl.lab.training.setup import (
    check_batch,
    example_images,
    experiment_data,
    initial_model,
    load_pretrained,
    smallest_part,
    train_crop,
    try_step,
)
from scalednl.lab.training.setup import test_crop as crop_of_tests
from scalednl.lab.user_code import load_network
from scalednl.models.weights import save_model
from tests.lab.training.builders import SETTINGS, SMALL, small
from tests.lab.training.own_networks import write_own


@pytest.mark.parametrize("name", ["pairs", "recall"])
def test_generated_training_images_come_from_the_seed(name: str) -> None:
    """Seeds vary the training sample; the test images are the same for all."""
    few = {"recall": RecallConfig(train_images=50, test_images=20)}
    one, other = (experiment_data(small(data=name, seed=seed, **few), None) for seed in (1, 2))
    assert not np.array_equal(one.train.images, other.train.images)
    assert np.array_equal(one.test.images, other.test.images)
    assert not np.array_equal(one.test.images[:20], one.train.images[:20])


def test_seeds_pair_across_attentions() -> None:
    """The same seed gives the same backbone and the same batches, whatever the block."""
    plain, softmax = (
        small(blocks=0),
        small(block=BlockConfig(attention="softmax"), blocks=2),
    )
    first, second = (initial_model(experiment, 4) for experiment in (plain, softmax))
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
    fabric, data = make_fabric(SETTINGS), experiment_data(SMALL, None)
    one, two = (Trainer(e, data, initial_model(e, 4), fabric) for e in (plain, softmax))
    for mine, theirs in zip(one.batches.epoch(1), two.batches.epoch(1), strict=True):
        assert torch.equal(mine.images, theirs.images)


def test_an_experiment_gets_as_many_images_as_it_asks_for() -> None:
    """More than there are, or a batch that they do not fill, is refused with the number."""
    data = experiment_data(small(limit=40, test_limit=10), None)
    assert (len(data.train), len(data.test)) == (40, 10)
    with pytest.raises(UsageError, match="--test-limit must be at most 40, the test images"):
        experiment_data(small(test_limit=41), None)
    check_batch(small(batch=40), data, world=40)
    with pytest.raises(UsageError, match="--batch must be at most 40, the training images"):
        check_batch(small(batch=41), data, world=1)
    with pytest.raises(UsageError, match="--batch must be at least 5, the number of processes"):
        check_batch(small(batch=4), data, world=5)


@pytest.mark.parametrize(
    ("data", "augment", "train", "test"),
    [
        ("cifar10", True, PaddedCrop(4), PaddedCrop(0, mirror=False)),
        ("cifar10", False, PaddedCrop(0, mirror=False), PaddedCrop(0, mirror=False)),
        ("tiny-imagenet", True, ResizedCrop(56), CentreCrop(56)),
        ("tiny-imagenet", False, CentreCrop(56), CentreCrop(56)),
        ("folder:pets", True, ResizedCrop(64), CentreCrop(64)),
        ("folder:pets", False, CentreCrop(64), CentreCrop(64)),
    ],
)
def test_crops_are_those_of_the_data_set(
    data: str, augment: bool, train: object, test: object
) -> None:
    """Without augmentation a network is trained on what it is tested on."""
    experiment = Experiment(data=data, augment=augment)
    assert train_crop(experiment) == train
    assert crop_of_tests(experiment) == test


def test_a_folder_chooses_its_augmentation() -> None:
    """By its side and its options; text is not mirrored."""
    small_side = Experiment(data="folder:pets", folder=FolderConfig(side=32, mirror=False))
    assert train_crop(small_side) == PaddedCrop(4, mirror=False)
    assert crop_of_tests(small_side) == PaddedCrop(0, mirror=False)
    large = Experiment(data="folder:pets", folder=FolderConfig(side=128, mirror=False))
    assert train_crop(large) == ResizedCrop(128, mirror=False)


def test_making_a_network_draws_no_random_number_of_others() -> None:
    """The network follows from the seed alone, and torch's own stream is unchanged."""
    torch.manual_seed(5)
    first = initial_model(SMALL, 4).state_dict()
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))
    again, other = initial_model(SMALL, 4), initial_model(small(seed=1), 4)
    assert torch.equal(first["stem.weight"], again.state_dict()["stem.weight"])
    assert not torch.equal(first["stem.weight"], other.state_dict()["stem.weight"])
    with pytest.raises(UsageError, match="heads=5 does not divide"):
        initial_model(small(block=BlockConfig(heads=5)), 4)


def test_pretrained_weights_fill_all_but_the_blocks(tmp_path: Path) -> None:
    """Another number of classes, and a file that is none, are refused with the file's name."""
    plain = initial_model(small(blocks=0, seed=7), 4)
    save_model(plain, tmp_path / "plain.safetensors")
    tuned = small(finetune=True, weights=str(tmp_path / "plain.safetensors"))
    model = initial_model(tuned, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    load_pretrained(model, tuned)
    for name, value in model.state_dict().items():
        source = before if name.startswith("stack.") else plain.state_dict()
        assert torch.equal(value, source[name]), name
    with pytest.raises(CommandError, match=r"with 4 classes, but .* with 5: classifier.bias does"):
        load_pretrained(initial_model(tuned, 5), tuned)
    (tmp_path / "plain.safetensors").write_bytes(b"nonsense")
    with pytest.raises(CommandError, match=r"plain\.safetensors"):
        load_pretrained(model, tuned)


def _own(folder: Path, **changes: Any) -> tuple[Experiment, nn.Module]:
    """An experiment with a network of a user's own, and the network."""
    name = load_network(write_own(folder, "setup.py"), "build")
    experiment = small(model=name, **changes)
    data = experiment_data(experiment, None)
    images = example_images(experiment, data)
    return experiment, initial_model(experiment, len(data.class_names), images)


def test_seeds_pair_in_networks_from_elsewhere(tmp_path: Path) -> None:
    """The backbone depends on the seed and not on the blocks."""
    _, plain = _own(tmp_path, blocks=0)
    _, scaled = _own(tmp_path, at=("stem",))
    _, other = _own(tmp_path, at=("body",), seed=1)
    for name, value in plain.state_dict().items():
        assert torch.equal(value, scaled.state_dict()[name])
    assert not torch.equal(plain.state_dict()["head.weight"], other.state_dict()["head.weight"])


def test_wrong_places_are_one_sentence(tmp_path: Path) -> None:
    """Missing, unknown, and without features."""
    for at, sentence in [
        ((), r"setup:build needs the module behind .* such as --at stem \(8 channels, "),
        (("stam",), r"--at stam: no module at 'stam'; did you mean 'stem'"),
        (("head",), r"--at head: 'head' \(Linear\) gives a tensor"),
    ]:
        with pytest.raises(UsageError, match=sentence):
            _own(tmp_path, at=at)


def test_the_smallest_part_of_an_epoch_is_tried(tmp_path: Path) -> None:
    """The last batch, shared by processes and cut by --accumulate."""
    assert smallest_part(small(batch=32), 150, world=1) == 22
    assert smallest_part(small(batch=32), 150, world=4) == 5
    assert smallest_part(small(batch=50), 150, world=1) == 50
    assert smallest_part(small(batch=50, accumulate=7), 150, world=1) == 7
    assert smallest_part(small(batch=32), 129, world=2) == 16
    experiment, network = _own(tmp_path, at=("stem",))
    try_step(network, experiment, experiment_data(experiment, None), world=1)


def test_networks_from_elsewhere_are_fine_tuned(tmp_path: Path) -> None:
    """From a file of save_model, or any checkpoint, whose classifier may have other classes."""
    _, plain = _own(tmp_path, blocks=0, seed=5)
    save_model(plain, tmp_path / "plain.safetensors")
    state = {**plain.state_dict(), "head.weight": torch.ones(1000, 16), "head.bias": torch.ones(1)}
    torch.save(state, tmp_path / "other.pt")
    for name, loaded in (("plain.safetensors", True), ("other.pt", False)):
        tuned, network = _own(
            tmp_path, at=("stem",), finetune=True, weights=str(tmp_path / name), seed=1
        )
        before = network.state_dict()["head.weight"].clone()
        load_pretrained(network, tuned)
        found = network.state_dict()
        assert torch.equal(found["body.0.weight"], plain.state_dict()["body.0.weight"])
        assert torch.equal(
            found["head.weight"], plain.state_dict()["head.weight"] if loaded else before
        )
    torch.save({**state, "body.0.weight": torch.ones(1)}, tmp_path / "other.pt")
    with pytest.raises(CommandError, match=r"is of another network, .* body.0.weight does not fit"):
        load_pretrained(network, tuned)
