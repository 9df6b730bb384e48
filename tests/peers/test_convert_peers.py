"""Blocks of mmcv and timm, with random weights and statistics, made into ours."""

import copy
import itertools

import pytest
import torch
from torch import nn

import scalednl
from tests.peers import builders
from tests.support import assert_close, randomise

SPACES = {1: (9,), 2: (6, 8), 3: (3, 6, 4)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("dims", "mode", "pooled", "scaled", "norm"),
    list(
        itertools.product(
            (1, 2, 3),
            ("embedded_gaussian", "dot_product"),
            (False, True),
            (False, True),
            (False, True),
        )
    ),
)
def test_mmcv(dims: int, mode: str, pooled: bool, scaled: bool, norm: bool) -> None:
    """Every variant of mmcv's NonLocal1d/2d/3d gives the same output as ours to 1e-5."""
    kind = getattr(builders.mmcv_cnn(), f"NonLocal{dims}d")
    norm_cfg = {"type": f"BN{dims}d", "eps": 1e-3} if norm else None
    block = randomise(
        kind(8, mode=mode, sub_sample=pooled, use_scale=scaled, norm_cfg=norm_cfg)
    ).eval()
    network = nn.Sequential(nn.Identity(), block)
    x = torch.randn(2, 8, *SPACES[dims])
    truth = network(x)
    wanted = "softmax" if mode == "embedded_gaussian" else "mean"
    converted, report = scalednl.convert(copy.deepcopy(network), attention=wanted)  # type: ignore[arg-type]
    assert_close(converted(x), truth, 1e-5)
    (conversion,) = report.conversions
    assert (conversion.source, conversion.was, conversion.now) == ("mmcv", wanted, wanted)
    assert_close(scalednl.convert(copy.deepcopy(network), attention="same")[0](x), truth, 1e-5)

    linear, report = scalednl.convert(network, attention="scaled")
    assert "fine-tune" in str(report)
    ours = linear.get_submodule("1")
    assert isinstance(ours, (scalednl.NonLocal1d, scalednl.NonLocal2d, scalednl.NonLocal3d))
    assert ours.attention == "scaled"
    assert torch.equal(ours.theta.weight, block.theta.conv.weight)
    linear.train()(x).sum().backward()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["gaussian", "concatenation"])
def test_what_mmcv_computes_otherwise_is_refused(mode: str) -> None:
    """Blocks without theta and phi, or with another pairwise function, are named, not converted."""
    block = builders.mmcv_cnn().NonLocal2d(8, mode=mode)
    with pytest.raises(ValueError, match=r"not convertible: 0 \(NonLocal2d"):
        scalednl.convert(nn.Sequential(block))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scaled", [False, True])
def test_timm(scaled: bool) -> None:
    """timm's NonLocalAttn, with and without its scale, is ours to 1e-5; also inside a network."""
    layers = (
        pytest.importorskip("timm.layers", reason="timm is missing") if builders.timm() else None
    )
    assert layers is not None
    block = randomise(layers.NonLocalAttn(64, use_scale=scaled)).eval()
    x = torch.randn(2, 64, 7, 5)
    converted, report = scalednl.convert(copy.deepcopy(block), attention="softmax")
    assert isinstance(converted, scalednl.NonLocal2d)
    assert report.conversions[0].source == "timm"
    assert_close(converted(x), block(x), 1e-5)


@pytest.mark.filterwarnings("ignore")
def test_a_timm_network() -> None:
    """A timm ResNet with non-local attention gives the same scores after conversion."""
    network = builders.timm().create_model(
        "resnet26", num_classes=5, block_args={"attn_layer": "nl"}
    )
    randomise(network).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.1)
        x = torch.randn(1, 3, 64, 64)
        truth = network(x)
        converted, report = scalednl.convert(network, attention="softmax")
        assert len(report.conversions) == 8
        assert_close(converted(x), truth, 1e-4)


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_without_its_classes() -> None:
    """load_foreign_state_dict puts an mmcv checkpoint into a network that has blocks of ours."""
    theirs = nn.Sequential(
        nn.Conv2d(3, 8, 1), randomise(builders.mmcv_cnn().NonLocal2d(8, norm_cfg={"type": "BN"}))
    ).eval()
    ours = nn.Sequential(
        nn.Conv2d(3, 8, 1),
        scalednl.NonLocal2d(8, attention="softmax", heads=1, embed_channels=4, bias=True),
    ).eval()
    ours[1].out.register_parameter("bias", None)  # type: ignore[union-attr]
    paths = scalednl.load_foreign_state_dict(ours, theirs.state_dict())
    assert paths == ("1",)
    x = torch.randn(2, 3, 6, 6)
    assert_close(ours(x), theirs(x), 1e-5)
