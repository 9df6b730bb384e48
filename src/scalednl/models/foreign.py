"""How other implementations of the non-local block name their weights, and how they compute.

A block is recognised by its keys (and its class name where the keys alone say too little). What it
computes is then found by trial: of the candidates below, the one that gives the block's own output
on random weights. So no attribute needs to be read, and a variant that none of ours can express is
noticed instead of converted wrongly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from torch import Tensor

PARTS = ("theta", "phi", "g", "out")


@dataclass(frozen=True)
class Layout:
    """The keys of one implementation, each part with the names it may have."""

    source: str
    theta: tuple[str, ...]
    phi: tuple[str, ...]
    g: tuple[str, ...]
    out: tuple[str, ...]
    norm: tuple[str, ...]
    classes: tuple[str, ...] = ()
    """Class names that must match; none where the keys are enough"""
    many_heads: bool = False
    pooled_before: bool = False


LAYOUTS = (
    Layout(
        "mmcv",
        theta=("theta.conv",),
        phi=("phi.conv", "phi.0.conv"),
        g=("g.conv", "g.0.conv"),
        out=("conv_out.conv",),
        norm=("conv_out.bn",),
    ),
    Layout(
        "timm",
        theta=("t",),
        phi=("p",),
        g=("g",),
        out=("z",),
        norm=("norm",),
        classes=("NonLocalAttn",),
    ),
    Layout(
        "SlowFast",
        theta=("conv_theta",),
        phi=("conv_phi",),
        g=("conv_g",),
        out=("conv_out",),
        norm=("bn",),
        pooled_before=True,
    ),
    Layout(
        "the authors' release",
        theta=("theta_conv",),
        phi=("pi_conv",),
        g=("g_conv",),
        out=("z_conv",),
        norm=("z_bn",),
        many_heads=True,
    ),
    Layout(
        "NONLocalBlock",
        theta=("theta",),
        phi=("phi", "phi.0"),
        g=("g", "g.0"),
        out=("W", "W.0"),
        norm=("W.1",),
    ),
)


@dataclass(frozen=True)
class ForeignBlock:
    """The weights of one foreign block under the names of ours, and its layout."""

    layout: Layout
    weights: dict[str, Tensor]
    """theta.weight, theta.bias, ..., norm.running_var"""
    pooled_after: bool
    keys: dict[str, str]
    """Our name of every weight -> the foreign one"""

    @property
    def dims(self) -> int:
        """1, 2 or 3, from the weights' axes."""
        return self.weights["theta.weight"].dim() - 2

    @property
    def channels(self) -> int:
        """C, the channels of x."""
        return self.weights["theta.weight"].shape[1]

    @property
    def embed_channels(self) -> int:
        """E, the embedding channels."""
        return self.weights["theta.weight"].shape[0]

    @property
    def biases(self) -> dict[str, bool]:
        """Which of the four convolutions have biases."""
        return {part: f"{part}.bias" in self.weights for part in PARTS}

    @property
    def has_norm(self) -> bool:
        """Whether batch norm follows."""
        return "norm.running_mean" in self.weights

    def candidates(self) -> Iterator[dict[str, Any]]:
        """Options of ours that may be what the block computes."""
        attentions: list[dict[str, Any]] = [
            {"attention": "softmax", "softmax_scale": "embed"},
            {"attention": "softmax", "softmax_scale": 1.0},
            {"attention": "softmax", "softmax_scale": "channels"},
            {"attention": "mean"},
            {"attention": "scaled"},
        ]
        pools: list[str | None] = ["after"] if self.pooled_after else [None]
        if self.layout.pooled_before:
            pools = [None, "before"]
        heads = [1]
        if self.layout.many_heads:
            heads = [n for n in (1, 2, 4, 8, 16) if self.embed_channels % n == 0]
        for attention, pool, number in product(attentions, pools, heads):
            yield {**attention, "key_pool": pool, "heads": number}


def recognise(state: Mapping[str, Tensor], class_name: str | None = None) -> ForeignBlock | None:
    """The foreign block that these weights belong to, or None; keys are relative to the block.

    `class_name` None is a checkpoint, where only keys can speak.
    """
    for layout in LAYOUTS:
        if class_name is not None and layout.classes and class_name not in layout.classes:
            continue
        keys = _match(layout, state)
        if keys is not None:
            weights = {ours: state[theirs] for ours, theirs in keys.items()}
            return ForeignBlock(layout, weights, ".0" in keys["phi.weight"], keys)
    return None


def _match(layout: Layout, state: Mapping[str, Tensor]) -> dict[str, str] | None:
    """Our names -> theirs if the state is that of one block of this layout and nothing else."""
    keys: dict[str, str] = {}
    for part in PARTS:
        stem = next((s for s in getattr(layout, part) if f"{s}.weight" in state), None)
        if stem is None or state[f"{stem}.weight"].dim() not in (3, 4, 5):
            return None
        keys[f"{part}.weight"] = f"{stem}.weight"
        if f"{stem}.bias" in state:
            keys[f"{part}.bias"] = f"{stem}.bias"
    for stem in layout.norm:
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            if f"{stem}.{name}" in state:
                keys[f"norm.{name}"] = f"{stem}.{name}"
    return keys if set(keys.values()) == set(state) else None
