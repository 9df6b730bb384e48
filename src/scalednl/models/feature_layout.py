"""Which axis of a module's output has the channels, found from two forward passes.

A channel count never changes with the image, so two sizes decide. Where a model accepts one size
only, or pools to a fixed one, the convolutions, norms and linear layers around the module decide,
because their channel axis is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

import torch
from torch import Tensor, nn

from scalednl.models.examples import place_counts, space_of
from scalednl.models.probe import Call, Evidence, Probe

NAMES = {
    (1, 1): "NCL",
    (2, 1): "NCHW",
    (3, 1): "NCTHW",
    (1, -1): "tokens",
    (2, -1): "NHWC",
    (3, -1): "NTHWC",
}
"""By the number of spatial axes and the channel axis"""


@dataclass(frozen=True)
class FeatureLayout:
    """The axes of features: batch first, channels second or last, and `dims` others.

    Tokens are (batch, length, channels); the first `prefix` of them (class and register tokens) are
    not places of the image.
    """

    dims: int
    channel_axis: int
    prefix: int = 0

    @property
    def name(self) -> str:
        """NCHW, NHWC, tokens, ..."""
        return NAMES[self.dims, self.channel_axis]

    def channels(self, shape: Sequence[int]) -> int:
        """The channel count of features of this shape."""
        return shape[self.channel_axis]

    def space(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The other axes, without batch and prefix."""
        space = tuple(shape[2:] if self.channel_axis == 1 else shape[1:-1])
        return (space[0] - self.prefix,) if self.prefix else space

    def to_maps(self, x: Tensor) -> Tensor:
        """(batch, channels, ...), as blocks take it, without the prefix."""
        x = x[:, self.prefix :] if self.prefix else x
        return x if self.channel_axis == 1 else x.movedim(-1, 1)

    def from_maps(self, maps: Tensor, x: Tensor) -> Tensor:
        """Undo `to_maps`; the prefix comes from x, untouched."""
        maps = maps if self.channel_axis == 1 else maps.movedim(1, -1)
        return torch.cat([x[:, : self.prefix], maps], dim=1) if self.prefix else maps


class LayoutError(ValueError):
    """A module's output cannot take blocks; the message says what was seen."""


def find_layout(module: nn.Module, first: Probe, second: Probe) -> FeatureLayout:
    """The layout of a module's output; the sentence of the error is about "it", the module."""
    calls = [(call, p) for p in (first, second) for call in p.calls.get(module, [])]
    shapes: list[tuple[int, ...]] = []
    for call, _ in calls:
        if call.shape is None or not 3 <= len(call.shape) <= 5:
            raise LayoutError(
                f"gives {call.output}, but blocks need one floating-point tensor of "
                "(batch, channels, height, width), or of 3 to 5 axes with the channels second or "
                "last"
            )
        shapes.append(call.shape)
    seen = ", ".join(map(str, dict.fromkeys(shapes)))
    axes = _constant_axes(shapes)
    if not axes:
        raise LayoutError(
            f"gives tensors of shape {seen}: neither the second nor the last axis has the same "
            "size in all calls and image sizes, so it is no channel axis that one stack could use"
        )
    axis = axes[0]
    if len(axes) > 1 or space_of(first.example) == space_of(second.example):
        found = {_axis_from_neighbours(call, p.evidence) for call, p in calls}
        fitting = [axis for axis in axes if found == {axis}]
        if not fitting:
            raise LayoutError(
                f"gives tensors of shape {seen}, and no convolution, norm or linear layer beside "
                "it shows whether the channels are the second or the last axis"
            )
        axis = fitting[0]
    layout = FeatureLayout(len(shapes[0]) - 2, axis)
    if axis == -1:
        _check_batch(calls, layout)
    if layout.name == "tokens":
        return _with_prefix(calls, layout)
    return layout


def _constant_axes(shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """Which of the second and the last axis have one size throughout."""
    if len({len(shape) for shape in shapes}) > 1:
        return []
    return [axis for axis in (1, -1) if len({shape[axis] for shape in shapes}) == 1]


def _axis_from_neighbours(call: Call, evidence: Sequence[Evidence]) -> int | None:
    """The channel axis of the nearest layer's tensor of the same shape.

    Where there is none, the channels of the last layer before the call, if only one axis has as
    many. Where both axes have the same size, only a layer that takes or gives the very tensor.
    """
    assert call.shape is not None
    if call.tensor is not None:
        axes = {e.axis for e in evidence if e.tensor is call.tensor}
        return axes.pop() if len(axes) == 1 else None
    alike = [e for e in evidence if e.shape == call.shape]
    if alike:
        return min(alike, key=lambda e: abs(e.time - call.time)).axis
    before = [e for e in evidence if e.time <= call.time]
    if not before:
        return None
    channels = before[-1].shape[before[-1].axis]
    fitting = [axis for axis in (1, -1) if call.shape[axis] == channels]
    return fitting[0] if len(fitting) == 1 else None


def _check_batch(calls: Sequence[tuple[Call, Probe]], layout: FeatureLayout) -> None:
    """Windows and sequences with the batch second are not batches of images."""
    for call, p in calls:
        assert call.shape is not None
        if p.batch is not None and call.shape[0] != p.batch:
            raise LayoutError(
                f"gives a tensor of shape {call.shape} for a batch of {p.batch}: features with the "
                f"channels last ({layout.name}) need the batch first"
            )


def _with_prefix(calls: Sequence[tuple[Call, Probe]], layout: FeatureLayout) -> FeatureLayout:
    """How many tokens come before those of the image: the rest must be the pixels of a map.

    Class and register tokens are the same for every image when they first occur.
    """
    shape = calls[0][0].shape or ()
    constant: list[int] = []
    elsewhere: set[int] = set()
    for call, p in calls:
        assert call.shape is not None
        if not constant:
            shape, constant = call.shape, p.constant_tokens.get(call.shape[1:], [])
        elsewhere |= {len(tokens) for tokens in p.constant_tokens.values()}
    if constant != list(range(len(constant))):
        raise LayoutError(
            f"gives tokens of shape {shape}, in which number {_listed(constant)} does not depend "
            "on the image: only such tokens at the beginning can be passed by"
        )
    for prefix in [len(constant)] if constant else [0, *sorted(elsewhere - {0})]:
        found = replace(layout, prefix=prefix)
        if _follows_image(calls, found):
            return found
    but = f", {len(constant)} of which do not depend on the image" if constant else ""
    raise LayoutError(
        f"gives tokens of shape {shape}{but}: {shape[1] - len(constant)} is not the number of "
        "pixels of any map in the model, so it cannot be seen which tokens are places of the image"
    )


def _follows_image(calls: Sequence[tuple[Call, Probe]], layout: FeatureLayout) -> bool:
    """Whether the tokens are as many as the pixels of some map, or grow as the image's pixels."""
    on_maps, ratios = [], set()
    for call, p in calls:
        assert call.shape is not None
        count = layout.space(call.shape)[0]
        maps = {prod(_space(e)) for e in p.evidence if e.axis == 1 or len(e.shape) > 3}
        on_maps.append(count in maps | place_counts(p.example))
        ratios.add(Fraction(count, prod(space_of(p.example) or (1,))))
    resized = space_of(calls[0][1].example) != space_of(calls[-1][1].example)
    return all(on_maps) or (resized and len(ratios) == 1 and min(ratios) > 0)


def _space(evidence: Evidence) -> tuple[int, ...]:
    return evidence.shape[2:] if evidence.axis == 1 else evidence.shape[1:-1]


def _listed(tokens: Sequence[int]) -> str:
    more = ", ..." if len(tokens) > 5 else ""
    return ", ".join(map(str, tokens[:5])) + more
