"""What is tried before a network from elsewhere is trained: one sentence each."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from scalednl.errors import UsageError
from scalednl.lab.training.trial import check_parts, check_scores, check_step
from scalednl.lab.user_code import load_network
from scalednl.models.foreign_network import make_foreign
from tests.lab.training.own_networks import write_own

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit", "ignore:Lazy modules")


def _check(name: str, images: Tensor) -> None:
    network = make_foreign(name, 5)
    check_parts(network, name)
    check_scores(network, name, images, 5)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("Pair", r"a tensor of shape \(4, 5\) for 4 images, got a tuple of a tensor"),
        ("Other", r"got a tensor of shape \(4, 4\)"),
        ("Moody", "different scores for the same images in evaluation mode"),
        ("Infinite", "scores that are not finite"),
        ("Flat", "does not run on images of 16 x 12 pixels, channels last: RuntimeError: view"),
        ("Strange", "cannot be stored: phase is of type torch.complex64"),
        ("frozen", "no parameters that can be trained"),
        ("lazy", "has lazy modules"),
        ("script", "is a ScriptModule"),
    ],
)
def test_a_network_that_cannot_be_trained_is_one_sentence(
    tmp_path: Path, function: str, sentence: str
) -> None:
    """It names the function, and what the network did."""
    name = load_network(write_own(tmp_path, "tried.py"), function)
    images = torch.randn(4, 3, 16, 12).to(memory_format=torch.channels_last)
    with pytest.raises(UsageError, match=f"tried:{function} .*{sentence}"):
        _check(name, images)


def test_a_trial_leaves_the_network_as_it_was(tmp_path: Path) -> None:
    """Weights, statistics, modes and gradients."""
    name = load_network(write_own(tmp_path, "tried.py"), "build")
    network, images = make_foreign(name, 5), torch.randn(4, 3, 16, 16)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    check_parts(network, name)
    check_scores(network, name, images, 5)
    check_step(network, name, images, world=2)
    for key, value in network.state_dict().items():
        assert torch.equal(value, before[key])
    assert network.training
    assert all(p.grad is None for p in network.parameters())


def test_batches_that_are_too_small_are_refused(tmp_path: Path) -> None:
    """Batch norm over one pixel of one image has no statistics."""
    name = load_network(write_own(tmp_path, "tried.py"), "build")
    check_step(make_foreign(name, 5), name, torch.randn(2, 3, 4, 4))
    with pytest.raises(UsageError, match="cannot be trained on 1 of these images"):
        check_step(make_foreign(name, 5), name, torch.randn(1, 3, 4, 4))


def test_several_processes_need_gradients_of_all_parameters(tmp_path: Path) -> None:
    """One process does not."""
    name = load_network(write_own(tmp_path, "tried.py"), "Unused")
    network, images = make_foreign(name, 5), torch.randn(4, 3, 16, 16)
    check_step(network, name, images)
    with pytest.raises(UsageError, match="parameters that its scores do not depend on"):
        check_step(network, name, images, world=2)
