"""The block as a line of an Ultralytics model YAML."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from tests.integrations import claims
from tests.peers import builders

pytestmark = pytest.mark.filterwarnings("ignore")
IMAGES = (2, 3, 64, 64)


@pytest.fixture(scope="module")
def tasks() -> ModuleType:
    """The real ultralytics.nn.tasks, which knows the block."""
    found = builders.ultralytics_tasks()
    import scalednl.integrations.ultralytics  # noqa: F401

    return found


def _yaml(arguments: str = "[ch, f, {heads: 2}]", scale: str = "n", head: str = "Detect") -> Any:
    """A detector or classifier with two blocks behind its second layer and one behind its third."""
    ends = {"Detect": "[[4, 5], 1, Detect, [nc]]", "Classify": "[-1, 1, Classify, [nc]]"}
    text = f"""
nc: 3
scale: {scale}
scales: {{n: [0.5, 0.25, 1024], s: [1.0, 0.5, 1024]}}
backbone:
  - [-1, 1, Conv, [64, 3, 2]]
  - [-1, 1, Conv, [128, 3, 2]]
  - [-1, 2, ScaledNonLocal2d, {arguments}]
  - [-1, 1, Conv, [256, 3, 2]]
  - [1, 1, ScaledNonLocal2d, {arguments}]
  - [3, 1, nn.Identity, []]
head:
  - {ends[head]}
"""
    return pytest.importorskip("yaml").safe_load(text)


def _detector(tasks: ModuleType, arguments: str = "[ch, f, {heads: 2}]", scale: str = "s") -> Any:
    return tasks.DetectionModel(_yaml(arguments, scale), verbose=False)


def _classifier(tasks: ModuleType, arguments: str = "[ch, f]") -> Any:
    return tasks.ClassificationModel(_yaml(arguments, "s", "Classify"), verbose=False)


@pytest.mark.parametrize(("scale", "channels", "count"), [("n", 32, 2), ("s", 64, 3)])
def test_channels_and_repeats_follow_the_scale(
    tasks: ModuleType, scale: str, channels: int, count: int
) -> None:
    """`[ch, f]` are the channels of the input at every width; repeats follow the depth."""
    network = _detector(tasks, scale=scale)
    for block in claims.blocks_of(network, count):
        assert (block.channels, block.heads) == (channels, 2)
    assert network.stride.tolist() == [4, 8]


def test_a_number_of_channels(tasks: ModuleType) -> None:
    """`[64]` is the number of channels; another one than the input's is refused with both."""
    claims.blocks_of(_detector(tasks, "[64]"), 3)
    with pytest.raises(ValueError, match=r"\(channels=32\) got 64 channels"):
        _detector(tasks, "[32]")


def test_new_blocks_change_nothing(tasks: ModuleType) -> None:
    """With the same other weights, a network gives the same scores as with nn.Identity instead."""
    network = _classifier(tasks).eval()
    plain = _yaml(scale="s", head="Classify")
    for line in plain["backbone"]:
        line[2:] = ["nn.Identity", []] if line[2] == "ScaledNonLocal2d" else line[2:]
    without = tasks.ClassificationModel(plain, verbose=False).eval()
    without.load_state_dict(network.state_dict(), strict=False)
    x = torch.randn(IMAGES)
    with torch.no_grad():
        for found, truth in zip(network(x), without(x), strict=True):
            assert torch.equal(found, truth)


def test_a_detector_learns(tasks: ModuleType) -> None:
    """The detection loss gives every weight of every block a gradient."""
    network = _detector(tasks, "[ch, f, {norm_init: 1}]")
    network.args = pytest.importorskip("ultralytics.cfg").get_cfg()
    batch = {
        "img": torch.rand(IMAGES),
        "batch_idx": torch.tensor([0.0, 1.0]),
        "cls": torch.tensor([[0.0], [2.0]]),
        "bboxes": torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.3, 0.6, 0.2, 0.3]]),
    }
    losses, _ = network.loss(batch)
    claims.assert_learns(network, losses.sum(), 3)


def test_it_is_saved_and_captured(tasks: ModuleType, tmp_path: Path) -> None:
    """state_dict, capture_attention and a pickled model find every block; fusing keeps them."""
    x = torch.randn(IMAGES)
    network = _classifier(tasks).eval()
    claims.assert_captured(network, x, 3)
    claims.assert_saved(lambda: _Scores(_classifier(tasks)), x, 3)
    torch.save(network, tmp_path / "network.pt")
    loaded = torch.load(tmp_path / "network.pt", weights_only=False)
    claims.blocks_of(loaded.fuse(verbose=False), 3)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x)[0], network(x)[0])


class _Scores(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> Any:
        return self.network(x)[0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("[]", r"takes \[ch, f\], .* got \[\]"),
        ("[ch]", r"takes \[ch, f\], .* got \[\[32, 64\]\]"),
        ("[channels]", r"takes \[ch, f\], .* got \['channels'\]"),
        ("[0]", "channels=0 must be a whole number of at least 1"),
        ("[ch, [1, 2]]", r"takes the output of one layer, but got from=\[1, 2\]"),
        ("[ch, f, {head: 2}]", "has no option head=2; did you mean 'heads'"),
        ("[ch, f, {heads: 3}]", "heads=3 does not divide embed_channels=64"),
    ],
)
def test_wrong_arguments(
    tasks: ModuleType,
    unchecked_shapes: None,  # noqa: ARG001
    arguments: str,
    sentence: str,
) -> None:
    """A line that cannot be a block is answered with what it has and what would work."""
    with pytest.raises((TypeError, ValueError), match=sentence):
        _detector(tasks, arguments)


def test_torchscript_is_refused(tasks: ModuleType) -> None:
    """Ultralytics exports by tracing, which a block answers with what to use instead."""
    network = _classifier(tasks).eval()
    with pytest.raises(RuntimeError, match=r"use torch\.export\.export, or scalednl\.export_model"):
        torch.jit.trace(network, torch.randn(IMAGES))
