"""Forward passes that record what modules give and leave the model as it was."""

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import scalednl
from scalednl.models.probe import evaluating, probe, replace_single, words
from tests.models.hosts import IMAGES, Counting, Random, conv, network


def test_random_numbers_and_buffers_are_left_alone() -> None:
    """Without new weights to draw, the next random number is the one it would have been."""
    model = network(nn.Sequential(conv(), nn.BatchNorm2d(8), Counting(), Random()))
    torch.manual_seed(3)
    scalednl.insert_nonlocal(model, "body", count=0, position=True, example=IMAGES)
    drawn = torch.rand(3)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(3))
    assert model.get_buffer("body.2.calls") == 0


def test_a_probe_sees_every_call_and_leaves_no_hook() -> None:
    """Calls are counted per module, shapes are those of outputs, and nothing stays behind."""
    shared = conv()
    model = network(nn.Sequential(shared, nn.BatchNorm2d(8), shared))
    found = probe(model, IMAGES)
    assert [call.shape for call in found.calls[shared]] == [(2, 8, 32, 24)] * 2
    assert [call.time for call in found.calls[shared]] == [2, 4]
    assert found.batch == 2
    assert torch.equal(found.outputs[0], model.eval()(IMAGES))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_every_module_gets_its_own_mode_back() -> None:
    """A norm frozen by `eval` stays frozen, also after an error inside."""
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout()).train()
    model[0].eval()
    with suppress(KeyError), evaluating(model):
        assert not any(module.training for module in model.modules())
        raise KeyError
    assert [module.training for module in model.modules()] == [True, False, True]


@dataclass
class _Pair:
    maps: Tensor
    number: int


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (torch.ones(1, 2), "a tensor of shape (1, 2)"),
        (torch.ones(3).long(), "a torch.int64 tensor of shape (3,)"),
        ([torch.ones(1)] * 5, f"a list of {', '.join(['a tensor of shape (1,)'] * 4)}, ..."),
        (OrderedDict(a=None), "an OrderedDict of 'a': None"),
        (_Pair(torch.ones(2), 3), "a _Pair of maps: a tensor of shape (2,), number: an int"),
        ((), "a tuple of nothing"),
    ],
)
def test_outputs_in_words(output: object, said: str) -> None:
    """Down to the shapes inside."""
    assert words(output) == said


def test_one_tensor_is_replaced_where_it_is() -> None:
    """Alone, or alone in a tuple or list; anything else is an error that describes it."""
    one = torch.ones(2)
    assert torch.equal(replace_single(one, torch.neg), -one)
    changed = replace_single([one], torch.neg)
    assert type(changed) is list
    assert torch.equal(changed[0], -one)
    with pytest.raises(RuntimeError, match=r"got a tuple of a tensor of shape \(2,\), an int"):
        replace_single((one, 3), torch.neg)
