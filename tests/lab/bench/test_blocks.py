"""One block on one map, in every method."""

import pytest
import torch
from torch import Tensor

from scalednl.errors import CommandError
from scalednl.lab.bench.blocks import (
    AssociativeRows,
    block_step,
    checked_error,
    features,
    make_block,
    use_rows,
)
from scalednl.lab.records.methods import METHODS
from tests.support import assert_close


def test_all_methods_have_the_same_weights() -> None:
    """What differs between them is the way to compute alone."""
    truth = make_block("auto", 8).state_dict()
    for method in METHODS:
        for name, value in make_block(method, 8).state_dict().items():
            assert torch.equal(value, truth[name]), (method, name)


def test_maps_are_the_same_every_time_and_channels_last() -> None:
    """The gradient has the map's layout and other values."""
    (x, grad), (again, _) = features(2, 4, 6), features(2, 4, 6)
    assert torch.equal(x, again)
    assert not torch.equal(x, grad)
    assert x.requires_grad
    assert all(t.is_contiguous(memory_format=torch.channels_last) for t in (x, grad))


def test_rows_replace_the_blocks_of_a_network() -> None:
    """Only non-local blocks change, and they compute the same."""
    block = make_block("associative", 8)
    x, _ = features(2, 8, 5)
    truth = block(x)
    network = torch.nn.Sequential(torch.nn.Identity(), block)
    use_rows(network)
    assert type(block) is AssociativeRows
    assert type(network[0]) is torch.nn.Identity
    assert_close(network(x), truth, 1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_a_step_has_a_backward_pass_only_in_training(training: bool) -> None:
    """In evaluation nothing is kept for it."""
    saved: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    step = block_step("auto", 8, 4, training, "cpu")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        step()
    assert bool(saved) == training


def test_a_block_is_checked_on_a_map_that_is_no_larger() -> None:
    """A wrong weight in evaluation alone is found too."""
    block = make_block("auto", 8)
    x, _ = features(1, 8, 20)
    assert checked_error(block, x, "auto") < 1e-5
    torch.nn.init.constant_(block.theta.weight, torch.nan)
    with pytest.raises(CommandError, match="auto"):
        checked_error(block, x, "auto")
