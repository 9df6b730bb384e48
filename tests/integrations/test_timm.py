"""The block as `attn_layer` of timm's own networks."""

from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from tests.integrations import claims
from tests.peers import builders

pytestmark = pytest.mark.filterwarnings("ignore")
NETWORKS = [
    # name, where its options have the layer, blocks
    ("resnet26", "block_args", 8),
    ("repvgg_a0", "attn_layer", 22),
    ("efficientnet_b0", "se_layer", 16),
]


@pytest.fixture(scope="module")
def timm() -> ModuleType:
    """The real timm."""
    return builders.timm()


@pytest.fixture(scope="module")
def layer(timm: ModuleType) -> Any:
    """The attention layer."""
    from scalednl.integrations.timm import ScaledNonLocal2d

    assert timm
    return ScaledNonLocal2d


def _resnet(timm: ModuleType, layer: Any, **options: Any) -> nn.Module:
    return timm.create_model("resnet26", num_classes=5, block_args={"attn_layer": layer}, **options)


@pytest.mark.parametrize(("name", "option", "count"), NETWORKS)
def test_networks(timm: ModuleType, layer: Any, name: str, option: str, count: int) -> None:
    """Families with an attention layer take it with options, keep its start, and run both ways."""
    layer = partial(layer, heads=2, init=0.02, norm_init=0.5)
    options = {option: {"attn_layer": layer} if option == "block_args" else layer}
    network = timm.create_model(name, num_classes=5, **options)
    for block in claims.blocks_of(network, count):
        assert block.heads == 2
        claims.assert_started(block, 0.02, 0.5)
    scores = network(torch.randn(2, 3, 64, 64))
    assert scores.isfinite().all()
    scores.square().sum().backward()


@pytest.mark.parametrize(
    ("name", "option", "count"),
    [("ese_vovnet19b_slim", "attn", 4), ("nf_resnet26", "attn_layer", 8)],
)
def test_networks_that_redraw(
    timm: ModuleType, layer: Any, name: str, option: str, count: int
) -> None:
    """Families that draw all convolutions last keep `norm_init`; a reset restores `init` too."""
    layer = partial(layer, init=0.02, norm_init=0.5)
    network = timm.create_model(name, num_classes=5, **{option: layer})
    assert network(torch.randn(2, 3, 64, 64)).isfinite().all()
    for block in claims.blocks_of(network, count):
        assert (block.norm.get_parameter("weight") == 0.5).all()  # type: ignore[union-attr]
        block.reset_parameters()
        claims.assert_started(block, 0.02, 0.5)


def test_a_pretrained_network_is_unchanged(timm: ModuleType, layer: Any, tmp_path: Path) -> None:
    """With weights of the plain network, new blocks leave every score as it was."""
    plain = timm.create_model("resnet26", num_classes=5, zero_init_last=False).eval()
    torch.save(plain.state_dict(), tmp_path / "resnet26.pth")
    source = {"file": str(tmp_path / "resnet26.pth"), "num_classes": 5}
    network = _resnet(
        timm, layer, pretrained=True, pretrained_strict=False, pretrained_cfg_overlay=source
    ).eval()
    x = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(network(x), plain(x), rtol=1e-5, atol=1e-5)


def test_it_learns_is_saved_and_captured(timm: ModuleType, layer: Any) -> None:
    """Every weight of every block gets gradient; state_dict and capture_attention find them."""
    x = torch.randn(2, 3, 64, 64)
    network = _resnet(timm, partial(layer, norm_init=1.0), zero_init_last=False)
    claims.assert_learns(network, network(x).square().sum(), 8)
    claims.assert_captured(network, x, 8)
    claims.assert_saved(lambda: _resnet(timm, layer), x, 8)


def test_wrong_options(timm: ModuleType, layer: Any, unchecked_shapes: None) -> None:  # noqa: ARG001
    """A wrong option of the layer is a sentence of ours, from inside timm too."""
    with pytest.raises(TypeError, match=r"has no option rd_ratio=0\.25"):
        _resnet(timm, partial(layer, rd_ratio=0.25))
    with pytest.raises(ValueError, match=r"attention='sofmax' is unknown: use .* 'softmax'"):
        _resnet(timm, partial(layer, attention="sofmax"))


def test_a_name_does_not_reach_it(timm: ModuleType) -> None:
    """The names that timm knows are a fixed list: should this fail, a name can be registered."""
    with pytest.raises(AssertionError, match="Invalid attn module"):
        _resnet(timm, "scalednl")
