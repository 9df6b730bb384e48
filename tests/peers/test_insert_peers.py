"""Blocks put into networks of torchvision and timm."""

import copy

import pytest
import torch
from torch import nn

import scalednl
from tests.peers import builders


def _network(name: str) -> nn.Module:
    source, _, model = name.partition("/")
    if source == "torchvision":
        return getattr(builders.torchvision_models(), model)()
    return builders.timm().create_model(model)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "at", "channels"),
    [
        ("torchvision/resnet18", "layer2", 128),
        ("torchvision/resnet50", ["layer2.2", "layer3.4"], 512),
        ("torchvision/resnet18", 28, 128),
        ("timm/resnet26", "layer2", 512),
        ("timm/resnetv2_50", "stages.1", 512),
    ],
    ids=str,
)
def test_real_networks(name: str, at: str | int | list[str], channels: int) -> None:
    """Output unchanged at the start, bit for bit; weights keep their names; gradients flow."""
    original = _network(name)
    before = dict(original.state_dict())
    model, report = scalednl.insert_nonlocal(copy.deepcopy(original), at=at, blocks=2)
    assert report.unchanged
    assert report.insertions[0].channels == channels
    after = model.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items())
    added = [key for key in after if key not in before]
    assert added
    assert all(".nonlocal_." in key for key in added)
    x = torch.randn(2, 3, 96, 80)
    assert torch.equal(model.eval()(x), original.eval()(x))

    model.train()
    for module in model.modules():
        if isinstance(module, scalednl.NonLocal2d) and module.norm is not None:
            nn.init.ones_(module.norm.weight)  # type: ignore[arg-type]
    model(x).square().mean().backward()
    for key, parameter in model.named_parameters():
        if ".nonlocal_." in key:
            assert parameter.grad is not None, key
            assert parameter.grad.any(), key
