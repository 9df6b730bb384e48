"""Layouts found by probing: maps, tokens, sequences and videos, channels second or last."""

from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn

import scalednl


class Patches(nn.Module):
    """A small vision transformer: patches, tokens before or after them, encoder layers."""

    def __init__(
        self, first: int = 0, last: int = 0, fixed: bool = False, batch_first: bool = True
    ) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, 4)
        self.first = nn.Parameter(torch.randn(1, first, 8))
        self.last = nn.Parameter(torch.randn(1, last, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first)
        self.layers = nn.Sequential(OrderedDict(a=layer, b=nn.Linear(8, 8)))
        self.fixed, self.batch_first = fixed, batch_first

    def forward(self, x: Tensor) -> Tensor:
        """Scores from the mean of all tokens."""
        assert not self.fixed or x.shape[2:] == (24, 20)
        tokens = self.patch(x).flatten(2).mT
        count = len(tokens)
        before, after = (t.expand(count, -1, -1) for t in (self.first, self.last))
        tokens = torch.cat([before, tokens, after], 1)
        if self.batch_first:
            return self.layers(tokens).mean(1)
        return self.layers(tokens.transpose(0, 1)).mean(0)


class ChannelsLast(nn.Module):
    """Convolutions with the features permuted between them."""

    def __init__(self, fixed: bool = False) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 8, 1), nn.Linear(8, 8)
        self.turn, self.drop = Turn(), nn.Identity()
        self.fixed = fixed

    def forward(self, x: Tensor) -> Tensor:
        """Features with the channels last."""
        assert not self.fixed or x.shape[2:] == (8, 8)
        return self.drop(self.turn(self.conv(x))).tanh()


class Turn(nn.Module):
    """NCHW to NHWC."""

    def forward(self, x: Tensor) -> Tensor:
        """Permuted."""
        return x.permute(0, 2, 3, 1)


IMAGES = torch.randn(2, 3, 24, 20)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_class_and_register_tokens_pass_by(prefix: int, fixed: bool) -> None:
    """They are found, also where one image size only works, and no block changes them."""
    model, report = scalednl.insert_nonlocal(
        Patches(prefix, fixed=fixed), "layers.a", example=IMAGES
    )
    (place,) = report.insertions
    assert (place.layout, place.prefix) == ("tokens", prefix)
    assert (place.channels, place.space) == (8, (30,))
    stack = model.get_submodule("layers.a.nonlocal_")
    nn.init.ones_(stack.get_parameter("0.norm.weight"))
    tokens = torch.randn(2, prefix + 30, 8)
    changed = stack.eval()(tokens, from_hook=True)
    assert torch.equal(changed[:, :prefix], tokens[:, :prefix])
    block = stack.get_submodule("0")
    assert torch.equal(changed[:, prefix:], block(tokens[:, prefix:].mT).mT)
    assert not torch.equal(changed[:, prefix:], tokens[:, prefix:])


@pytest.mark.parametrize(
    ("model", "at", "sentence"),
    [
        (
            Patches(last=1),
            "layers.a",
            r"\(2, 31, 8\), in which number 30 does not depend on the image",
        ),
        (Patches(1, batch_first=False), "layers.a", r"\(31, 2, 8\) for a batch of 2"),
        (ChannelsLast(fixed=True), "turn", "shows whether the channels are the second or the last"),
    ],
    ids=["tokens at the end", "batch second", "8 x 8 x 8"],
)
def test_what_cannot_be_seen_is_refused(model: nn.Module, at: str, sentence: str) -> None:
    """The sentence says what was seen."""
    images = torch.randn(2, 3, 8, 8) if isinstance(model, ChannelsLast) else IMAGES
    with pytest.raises(ValueError, match=sentence):
        scalednl.insert_nonlocal(model, at, example=images)


class ClassToken(Patches):
    """Scores from the class token alone."""

    def forward(self, x: Tensor) -> Tensor:
        """The first token after both layers."""
        tokens = self.patch(x).flatten(2).mT
        return self.layers(torch.cat([self.first.expand(len(x), -1, -1), tokens], 1))[:, 0]


def test_blocks_after_the_last_use_of_the_patches_are_refused() -> None:
    """Where only the class token is used afterwards, blocks could never learn."""
    with pytest.raises(RuntimeError, match=r"depends only on its first tokens \(1\)"):
        scalednl.insert_nonlocal(ClassToken(1), "layers.a", example=IMAGES)


def test_a_sequence_with_the_batch_second_is_not_a_batch() -> None:
    """Samples that depend on each other show that the first axis is the sequence."""
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    with pytest.raises(ValueError, match="mix samples: its first axis is not the batch"):
        scalednl.insert_nonlocal(nn.Sequential(layer), "0", example=torch.randn(10, 2, 8))
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    _, report = scalednl.insert_nonlocal(nn.Sequential(layer), "0", example=torch.randn(2, 10, 8))
    assert (report.insertions[0].layout, report.insertions[0].space) == ("tokens", (10,))


@pytest.mark.parametrize(
    ("model", "at", "example", "expected"),
    [
        (ChannelsLast(), "turn", (1, 3, 8, 8), ("NHWC", 8, (8, 8))),
        (ChannelsLast(), "drop", (2, 3, 9, 7), ("NHWC", 8, (9, 7))),
        (ChannelsLast(), "conv", (2, 3, 8, 8), ("NCHW", 8, (8, 8))),
        (nn.Sequential(nn.Conv1d(3, 8, 3), nn.ReLU()), "1", (2, 3, 12), ("NCL", 8, (10,))),
        (
            nn.Sequential(nn.Conv3d(3, 4, 1), nn.ReLU()),
            "0",
            (1, 3, 4, 6, 5),
            ("NCTHW", 4, (4, 6, 5)),
        ),
        (
            nn.Sequential(
                nn.Conv2d(3, 8, 1), nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(512, 2)
            ),
            "0",
            (2, 3, 8, 8),
            ("NCHW", 8, (8, 8)),
        ),
        (
            nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2)),
            "1",
            (2, 3, 2, 3),
            ("NCHW", 4, (2, 3)),
        ),
        (
            nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d(7)),
            "1",
            (2, 3, 9, 9),
            ("NCHW", 4, (7, 7)),
        ),
        (nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 8)), "1", None, ("tokens", 8, (6,))),
    ],
    ids=str,
)
def test_layouts(
    model: nn.Module,
    at: str,
    example: tuple[int, ...] | None,
    expected: tuple[str, int, tuple[int, ...]],
) -> None:
    """Found with examples of any size, square ones and sizes equal to the channels included."""
    x = torch.randn(example) if example else torch.arange(12).reshape(2, 6) % 9
    _, report = scalednl.insert_nonlocal(model, at, example=x)
    (place,) = report.insertions
    assert (place.layout, place.channels, place.space) == expected
    assert report.unchanged


def test_position_and_pooling_need_maps() -> None:
    """Tokens have no height and width to encode or pool."""
    with pytest.raises(ValueError, match="position=True needs features with height and width"):
        scalednl.insert_nonlocal(Patches(), "layers.a", position=True, example=IMAGES)
    pooled = scalednl.BlockConfig(key_pool="before")
    with pytest.raises(ValueError, match="key_pool='before' pools neighbours of a map"):
        scalednl.insert_nonlocal(Patches(), "layers.a", block=pooled, example=IMAGES)
    model, _ = scalednl.insert_nonlocal(ChannelsLast(), "turn", position=True, example=IMAGES)
    assert model(IMAGES).shape == (2, 24, 20, 8)
