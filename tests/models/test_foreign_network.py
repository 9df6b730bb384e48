"""Networks from elsewhere: made, given blocks, and made again from their config alone."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from scalednl import BlockConfig, ModelConfig, StackConfig, create_model, load_model, save_model
from scalednl.config import Placement
from scalednl.models.foreign_network import (
    UnknownNetworkError,
    config_of,
    insert_stacks,
    make_foreign,
    make_network,
    register_builder,
)
from tests.peers import builders


class Tokens(nn.Module):
    """A small transformer with a class token, for images of one size."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, 12, 4, 4)
        self.first = nn.Parameter(torch.randn(1, 1, 12))
        self.mix = nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 12))
        self.head = nn.Linear(12, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores."""
        tokens = self.cut(x).flatten(2).mT
        tokens = self.mix(torch.cat([self.first.expand(len(x), -1, -1), tokens], 1))
        scores: Tensor = self.head(tokens.mean(1))
        return scores


class Plain(nn.Module):
    """Stages that are called one by one."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.stages = nn.ModuleList([nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)])
        self.head = nn.Linear(16, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores."""
        for stage in self.stages:
            x = stage(x)
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


def _stiff(num_classes: int) -> nn.Module:
    network = Plain(num_classes)
    # Needs numbers, which there are none of on the meta device.
    assert network.head.weight.sum().item() != 0
    return network


register_builder("tests:Tokens", Tokens)
register_builder("tests:Plain", Plain)
register_builder("tests:stiff", _stiff)
BLOCK = BlockConfig(norm_init=0.01, heads=2)


def _config(name: str, position: bool = False, count: int = 2, **changes: Any) -> ModelConfig:
    return ModelConfig(name, 5, StackConfig(BLOCK, count), position, **changes)


def _made(config: ModelConfig, at: list[str], images: Tensor) -> nn.Module:
    torch.manual_seed(3)
    network = make_foreign(config.name, config.num_classes)
    insert_stacks(network, config, at, images)
    return network


@pytest.mark.parametrize(
    ("name", "at", "position"),
    [
        ("tests:Tokens", ["mix"], False),
        ("tests:Plain", ["stages.0", "stages.1"], True),
        ("tests:Plain", ["stages.0"], False),
        ("tests:stiff", ["stages.1"], False),
        ("tests:Plain", [], False),
    ],
)
def test_a_file_makes_the_network_again(
    tmp_path: Path, name: str, at: list[str], position: bool
) -> None:
    """With the same output, and, after the same seed, the same first weights."""
    images = torch.randn(3, 3, 16, 16)
    network = _made(_config(name, position, 2 if at else 0), at, images).eval()
    config = config_of(network)
    assert config is not None
    assert [place.path for place in config.placements] == at
    torch.manual_seed(3)
    for key, value in make_network(config).state_dict().items():
        assert torch.equal(value, network.state_dict()[key])
    save_model(network, tmp_path / "net.safetensors")
    loaded = load_model(tmp_path / "net.safetensors")
    assert config_of(loaded) == config
    assert torch.equal(loaded(images), network(images))


def test_the_backbone_does_not_depend_on_the_blocks() -> None:
    """Seeds pair."""
    images = torch.randn(2, 3, 16, 16)
    plain = _made(_config("tests:Plain", count=0), [], images).state_dict()
    other = _made(_config("tests:Plain"), ["stages.0"], images).state_dict()
    for key, value in plain.items():
        assert torch.equal(value, other[key])
    assert len(other) > len(plain)


def test_mistakes_are_sentences() -> None:
    """A function that is unknown or has other parameters, and what it should not return."""
    with pytest.raises(UnknownNetworkError, match=r"tests:Plane is a function of a file"):
        make_foreign("tests:Plane", 5)
    with pytest.raises(ValueError, match=r"called as f\(num_classes=10\)"):
        register_builder("tests:less", lambda: None)
    with pytest.raises(ValueError, match="not FILE:FUNCTION"):
        register_builder("timm:less", Plain)
    register_builder("tests:number", lambda num_classes: num_classes)
    with pytest.raises(ValueError, match=r"must return a torch.nn.Module, got int"):
        make_foreign("tests:number", 5)
    register_builder("tests:fails", lambda num_classes: {}[num_classes])
    with pytest.raises(ValueError, match="tests:fails cannot be made: KeyError: 5"):
        make_foreign("tests:fails", 5)
    with pytest.raises(ValueError, match=r"behind which its blocks go"):
        _made(_config("tests:Plain"), [], torch.randn(2, 3, 16, 16))
    assert config_of(nn.Linear(2, 2)) is None
    assert config_of(create_model("preresnet8", 3)) == ModelConfig("preresnet8", 3)


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"name": "tests:absent"}, "a function of a file that is not loaded"),
    ({"num_classes": 10**12}, "but it has"),
    ({"blocks": {"block": {"heads": 2}, "count": 10**9}}, "but it has"),
    ({"blocks": {"block": {"heads": 2, "embed_channels": 10**9}, "count": 2}}, "in which"),
    ({"placements": []}, "in which"),
    ({"placements": [{"path": "stages.7", "where": "nonlocal_", "channels": 8}]}, "no place"),
    ({"placements": [{"path": "stages.0", "where": "head", "channels": 8}]}, "must end in"),
    ({"placements": [{"path": "stages.0", "where": "nonlocal_", "channels": 10**9}]}, "in which"),
    ({"placements": [{"path": "stages.0", "where": "nonlocal_", "channels": -1}]}, "channels"),
    ({"placements": [{"path": 3, "where": "nonlocal_", "channels": 8}]}, "path"),
    ({"placements": 3}, "cannot be loaded"),
    ({"position": True, "placements": [{"path": "x"}]}, "cannot be loaded"),
    ({"name": "preresnet8"}, "has a stage"),
]


@pytest.mark.parametrize(("changes", "sentence"), HOSTILE)
@pytest.mark.usefixtures("unchecked_shapes")
def test_a_hostile_header_is_refused(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    """Nothing of what it describes is allocated, and no function that is not registered runs."""
    path = tmp_path / "net.safetensors"
    network = _made(_config("tests:Plain"), ["stages.0"], torch.randn(2, 3, 16, 16))
    save_model(network, path)
    config = config_of(network)
    assert config is not None
    header = {"format": 1, "model": {**config.as_dict(), **changes}}
    save_file(load_file(path), path, metadata={"scalednl": json.dumps(header)})
    with pytest.raises(ValueError, match=sentence):
        load_model(path)


def test_placements_are_checked() -> None:
    """Axes and tokens that no features have."""
    for changes in ({"dims": 4}, {"channel_axis": 2}, {"prefix": -1}):
        with pytest.raises(ValueError, match=next(iter(changes))):
            Placement("a", "nonlocal_", 8, **changes)


@pytest.mark.filterwarnings("ignore")
def test_networks_of_timm_are_made_by_name(tmp_path: Path) -> None:
    """Never pretrained, and made again from a file of weights."""
    builders.timm()
    images = torch.randn(2, 3, 64, 64)
    network = _made(_config("timm:resnet18"), ["layer2"], images).eval()
    config = config_of(network)
    assert config is not None
    assert config.placements == (Placement("layer2", "nonlocal_", 128),)
    save_model(network, tmp_path / "net.safetensors")
    loaded = load_model(tmp_path / "net.safetensors")
    assert torch.equal(loaded(images), network(images))


@pytest.mark.filterwarnings("ignore")
def test_other_names_of_timm_are_refused() -> None:
    """An unknown name gets a suggestion; addresses, which timm would download from, are unknown."""
    builders.timm()
    with pytest.raises(ValueError, match="'resnet81'; did you mean 'resnet18'"):
        make_foreign("timm:resnet81", 5)
    for address in ("hf-hub:a/b", "local-dir:/tmp", "hf-hub:a.b/c.d"):
        with pytest.raises(ValueError, match="timm has no network called"):
            make_foreign(f"timm:{address}", 5)
    with pytest.raises(
        ValueError, match=r"resnet18 has no tag 'a9': use one of .*resnet18\.a1_in1k"
    ):
        make_foreign("timm:resnet18.a9", 5)


@pytest.mark.filterwarnings("ignore")
def test_a_tag_of_timm_names_the_same_network() -> None:
    """As timm's own names have them: new weights, those that the name without a tag gives."""
    builders.timm()
    torch.manual_seed(3)
    plain = make_foreign("timm:resnet18", 5).state_dict()
    torch.manual_seed(3)
    tagged = make_foreign("timm:resnet18.a1_in1k", 5).state_dict()
    assert plain.keys() == tagged.keys()
    assert all(torch.equal(plain[name], tagged[name]) for name in plain)


def test_timm_that_is_missing_or_broken_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first names the line to type."""
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ValueError, match=r"timm:resnet18 needs timm, .* pip install timm"):
        make_foreign("timm:resnet18", 5)
    monkeypatch.delitem(sys.modules, "timm")
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator is missing')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"cannot be imported here: RuntimeError: operator is mis"):
        make_foreign("timm:resnet18", 5)
