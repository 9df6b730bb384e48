"""The block as a plugin that mmcv builds from a config."""

from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import scalednl
from tests.integrations import claims
from tests.peers import builders
from tests.support import assert_close, randomise

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def cnn() -> ModuleType:
    """The real mmcv.cnn, where the block is registered."""
    found = builders.mmcv_cnn()
    import scalednl.integrations.mmcv  # noqa: F401

    return found


def _backbone(cnn: ModuleType, *plugins: dict[str, Any]) -> Any:
    """Two stages with plugins behind each, made and initialised as in mmdetection's ResNet."""
    model = pytest.importorskip("mmengine.model")

    class Stage(model.BaseModule):  # type: ignore[misc, name-defined]
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.conv = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)
            self.bn = nn.BatchNorm2d(outputs)
            self.plugin_names = []
            for plugin in plugins:
                config = dict(plugin)
                postfix = config.pop("postfix", "")
                name, layer = cnn.build_plugin_layer(config, in_channels=outputs, postfix=postfix)
                self.add_module(name, layer)
                self.plugin_names.append(name)

        def forward(self, x: Tensor) -> Tensor:
            x = self.bn(self.conv(x)).relu()
            for name in self.plugin_names:
                x = getattr(self, name)(x)
            return x

    init = [
        {"type": "Kaiming", "layer": "Conv2d"},
        {"type": "Constant", "val": 1, "layer": ["_BatchNorm", "GroupNorm"]},
    ]
    network = model.Sequential(Stage(3, 32), Stage(32, 64), init_cfg=init)
    network.init_weights()
    return network


def _plugin(**options: Any) -> dict[str, Any]:
    return {"type": "ScaledNonLocal2d", **options}


def test_it_is_registered(cnn: ModuleType) -> None:
    """The registry makes a block from a config, under the name that mmcv gives its own."""
    registry = pytest.importorskip("mmengine.registry")
    block = registry.MODELS.build(_plugin(in_channels=16, attention="softmax", heads=2))
    assert isinstance(block, scalednl.NonLocal2d)
    assert (block.channels, block.attention, block.heads) == (16, "softmax", 2)
    name, layer = cnn.build_plugin_layer(_plugin(), postfix="_1", in_channels=16)
    assert (name, layer.channels) == ("nonlocal_block_1", 16)


def test_a_backbone_keeps_the_start(cnn: ModuleType) -> None:
    """The backbone's own initialisation leaves `init` and `norm_init` of the blocks as asked."""
    network = _backbone(
        cnn, _plugin(init=0.02), _plugin(postfix="_second", init=0.03, norm_init=0.5)
    )
    blocks = claims.blocks_of(network, 4)
    for first, second in (blocks[:2], blocks[2:]):
        claims.assert_started(first, 0.02, 0.0)
        claims.assert_started(second, 0.03, 0.5)


def test_new_blocks_change_nothing(cnn: ModuleType) -> None:
    """With the same other weights, a backbone with new blocks gives the same features."""
    plain, network = _backbone(cnn).eval(), _backbone(cnn, _plugin()).eval()
    missing, unexpected = network.load_state_dict(plain.state_dict(), strict=False)
    assert not unexpected
    assert all(".nonlocal_block." in key for key in missing)
    x = torch.randn(2, 3, 32, 24)
    with torch.no_grad():
        assert torch.equal(network(x), plain(x))


def test_it_learns_is_saved_and_captured(cnn: ModuleType) -> None:
    """Every weight of every block gets gradient; state_dict and capture_attention find them."""
    x = torch.randn(2, 3, 32, 24)
    network = _backbone(cnn, _plugin(norm_init=1.0))
    claims.assert_learns(network, network(x).square().sum(), 2)
    claims.assert_captured(network, x, 2)
    claims.assert_saved(lambda: _backbone(cnn, _plugin()), x, 2)


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"type": "GN", "num_groups": 2}, nn.GroupNorm),
        ({"type": "SyncBN"}, nn.SyncBatchNorm),
        ({"type": "BN", "requires_grad": False}, nn.BatchNorm2d),
    ],
)
def test_norm_cfg(cnn: ModuleType, config: dict[str, Any], kind: type[nn.Module]) -> None:
    """norm_cfg makes the norm as elsewhere in mmcv, and it starts at norm_init."""
    _, block = cnn.build_plugin_layer(_plugin(norm_cfg=config), in_channels=16)
    assert isinstance(block.norm, kind)
    weight = block.norm.get_parameter("weight")
    assert not weight.any()
    assert weight.requires_grad is config.get("requires_grad", True)


def test_weights_of_the_block_of_mmcv(cnn: ModuleType) -> None:
    """A stage with mmcv's own block gives the same features with ours after loading."""
    norm = {"type": "BN"}
    theirs = _backbone(cnn, {"type": "NonLocal2d", "norm_cfg": norm})[0]
    options = {"attention": "softmax", "heads": 1, "embed_channels": 16, "bias": True}
    ours = _backbone(cnn, _plugin(**options, norm_cfg=norm))[0]
    randomise(theirs)
    paths = scalednl.load_foreign_state_dict(ours, {"state_dict": theirs.state_dict()})
    assert paths == ("nonlocal_block",)
    x = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        assert_close(ours.eval()(x), theirs.eval()(x), 1e-4)


def test_wrong_options(cnn: ModuleType, unchecked_shapes: None) -> None:  # noqa: ARG001
    """A wrong option in a config is a sentence of ours."""
    for options, sentence in (
        ({"reduction": 2}, "has no option reduction=2"),
        ({"heads": 3}, "heads=3 does not divide embed_channels=16"),
        ({"norm_cfg": {"type": "BN"}, "norm_layer": nn.BatchNorm2d}, "excludes norm_layer"),
    ):
        with pytest.raises((TypeError, ValueError), match=sentence):
            cnn.build_plugin_layer(_plugin(**options), in_channels=16)
