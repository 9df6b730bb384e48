"""Blocks of mmcv and timm, with random weights and statistics, made into ours."""

import copy
import itertools

import pytest
import torch
from torch import Tensor, nn

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
    """Every variant of mmcv's NonLocal1d/2d/3d has the values and gradients of ours to 1e-10."""
    kind = getattr(builders.mmcv_cnn(), f"NonLocal{dims}d")
    norm_cfg = {"type": f"BN{dims}d", "eps": 1e-3} if norm else None
    block = kind(8, mode=mode, sub_sample=pooled, use_scale=scaled, norm_cfg=norm_cfg)
    network = nn.Sequential(nn.Identity(), randomise(block).double())
    wanted = "softmax" if mode == "embedded_gaussian" else "mean"
    converted, report = scalednl.convert(copy.deepcopy(network), attention=wanted)
    (conversion,) = report.conversions
    assert (conversion.source, conversion.was, conversion.now) == ("mmcv", wanted, wanted)
    x = torch.randn(2, 8, *SPACES[dims], dtype=torch.float64)
    assert_same(converted, network, x)

    linear, report = scalednl.convert(network, attention="scaled")
    assert "fine-tune" in str(report)
    ours = linear.get_submodule("1")
    assert isinstance(ours, (scalednl.NonLocal1d, scalednl.NonLocal2d, scalednl.NonLocal3d))
    assert ours.attention == "scaled"
    assert ours.theta.weight is block.theta.conv.weight
    linear.train()(x).sum().backward()


def assert_same(converted: nn.Module, original: nn.Module, x: Tensor) -> None:
    """Assert equal values and gradients to 1e-10 in both modes."""
    for training in (False, True):
        found = []
        for network in (converted.train(training), original.train(training)):
            leaf = x.clone().requires_grad_()
            z = network(leaf)
            found.append((z.detach(), torch.autograd.grad(z.square().sum(), leaf)[0]))
        for value, truth in zip(*found, strict=True):
            assert_close(value, truth, 1e-10)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm", ["GN", "IN", "SyncBN"])
def test_other_norms_of_mmcv(norm: str) -> None:
    """Group, instance and synchronised norms are kept."""
    options = {"type": norm, **({"num_groups": 2} if norm == "GN" else {})}
    block = randomise(builders.mmcv_cnn().NonLocal2d(8, norm_cfg=options)).double()
    converted, _ = scalednl.convert(copy.deepcopy(block), attention="same")
    assert_same(converted, block, torch.randn(2, 8, 5, 6, dtype=torch.float64))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["gaussian", "concatenation"])
def test_what_mmcv_computes_otherwise_is_refused(mode: str) -> None:
    """Blocks without theta and phi, or with another pairwise function, are named, not converted."""
    block = builders.mmcv_cnn().NonLocal2d(8, mode=mode)
    with pytest.raises(ValueError, match="0: not converted: NonLocal2d has"):
        scalednl.convert(nn.Sequential(block))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scaled", [False, True])
def test_timm(scaled: bool) -> None:
    """timm's NonLocalAttn, with and without its scale, is ours to 1e-10."""
    layers = (
        pytest.importorskip("timm.layers", reason="timm is missing") if builders.timm() else None
    )
    assert layers is not None
    block = randomise(layers.NonLocalAttn(64, use_scale=scaled)).double()
    converted, report = scalednl.convert(copy.deepcopy(block), attention="softmax")
    assert isinstance(converted, scalednl.NonLocal2d)
    assert converted.softmax_scale == ("channels" if scaled else 1.0)
    assert report.conversions[0].source == "timm"
    assert_same(converted, block, torch.randn(2, 64, 7, 5, dtype=torch.float64))


@pytest.mark.filterwarnings("ignore")
def test_what_timm_computes_otherwise_is_reported() -> None:
    """timm's bilinear transform beside a non-local block is not taken for one."""
    layers = (
        pytest.importorskip("timm.layers", reason="timm is missing") if builders.timm() else None
    )
    assert layers is not None
    network = nn.Sequential(layers.BatNonLocalAttn(64), layers.NonLocalAttn(64))
    converted, report = scalednl.convert(network, attention="same")
    assert [c.path for c in report.conversions] == ["1"]
    assert [u.path for u in report.unconverted] == ["0"]
    assert converted[0] is network[0]  # type: ignore[index]


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
    paths = scalednl.load_foreign_state_dict(ours, {"state_dict": theirs.state_dict(), "meta": {}})
    assert paths == ("1",)
    x = torch.randn(2, 3, 6, 6)
    assert_close(ours(x), theirs(x), 1e-5)
