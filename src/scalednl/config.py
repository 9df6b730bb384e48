"""Options of blocks and networks: frozen, checked when made, without torch."""

from dataclasses import asdict, dataclass, field
from typing import Any

from scalednl.options import (
    MEMORIES,
    Attention,
    Bias,
    Center,
    KeyPool,
    Memory,
    Order,
    PoolSize,
    ReferencePixels,
    View,
    biased,
    check_attention_options,
    check_center,
    check_dropout,
    check_init,
    check_key_pool,
    check_name,
    check_order,
    check_positive,
    check_reference_pixels,
    check_softmax_scale,
    default_init,
    orders_of,
)

STACK = "nonlocal_"
"""Begins the name of a stack in a network from elsewhere"""
TIMM = "timm:"
"""Begins the name of a network of timm"""


def is_foreign(name: str) -> bool:
    """Whether a name is that of a network from elsewhere: `timm:NAME`, or `FILE:FUNCTION`."""
    return ":" in name


@dataclass(frozen=True)
class BlockConfig:
    """The options of a non-local block: those of `scalednl.NonLocal2d` that a file can hold.

    What depends on the channels, such as whether `heads` divides them, is checked when the block is
    made.

    Args:
        attention: "scaled", "softmax", "mean", or one of `scalednl.register_attention`.
        view: what A sees of theta and phi: "base", only their "magnitude", or only their
            "direction" (of a zero vector: 0).
        heads: into how many groups the embedding channels are split.
        embed_channels: E in total; None is C. The paper's Figure 2 reduces it.
        init: "he", or a standard deviation; None is "he", for softmax 0.01. 0.0 is a dead block.
        order: "auto" picks the cheapest from the shape; otherwise "quadratic", "associative",
            "gram" (base view) or "rank_one" (magnitude view), for softmax "fused" or "quadratic";
            a `Choice` also fixes whether batch norm folds. `plan` explains what is chosen. May be
            set later; an order that a replaced or hooked module rules out counts as "auto".
        bias: give all four convolutions biases, or those that are named, such as
            ("theta", "phi", "g"); the authors' release has none.
        norm: batch norm after out.
        norm_init: its weight at the start. 0, as in the authors' release, makes a new block the
            identity, which protects a pretrained network and slows a fresh one: there use 1.
        scale: False drops 1/sqrt(N) from "scaled", to reproduce the divergence.
        softmax_scale: t: "embed" 1/sqrt(d), "channels" 1/sqrt(C), "learned" (one per head,
            starting at 1/sqrt(d)) or a number. Unit vectors keep logits within t, so softmax over
            directions is tested fairly only with a temperature.
        key_pool: max-pool the keys, "before" or "after" phi and g; the release does not.
        key_pool_size: by how many pixels: a number for every axis of space, never of time, or a
            tuple with one number per axis of the map, time included. What is left over at the end
            of an axis is dropped, as torch's MaxPool does.
        memory: "lean" keeps few bytes for backward and recomputes the rest. May be set later.
        center: "keys" subtracts from phi its mean over the keys, so that rows of A sum to 0 and a
            vector added to all keys changes nothing, as with softmax; "keys+mean" adds 1/N to A, so
            that they sum to 1 and y contains the mean of g. None, the paper's form, does neither.
        reference_pixels: R: A has sqrt(R / d) / N in the place of 1 / sqrt(N d), which is the same
            at N = R keys and does not grow with the size of the map. A number; or "running", the
            number seen in training, for use in evaluation; or None, the paper's form, whose branch
            grows as sqrt(N): it is twice as large for four times as many pixels.
    """

    attention: Attention = "scaled"
    view: View = "base"
    heads: int = 4
    embed_channels: int | None = None
    init: float | str | None = None
    order: Order = "auto"
    bias: Bias = False
    norm: bool = True
    norm_init: float = 0.0
    scale: bool = True
    softmax_scale: float | str = "embed"
    key_pool: KeyPool | None = None
    key_pool_size: PoolSize = 2
    memory: Memory = "auto"
    center: Center | None = None
    reference_pixels: ReferencePixels | None = None

    def __post_init__(self) -> None:
        embed = self.heads if self.embed_channels is None else self.embed_channels
        check_positive("heads", self.heads)
        check_positive("embed_channels", embed)
        check_attention_options(embed, self.heads, self.attention, self.view, self.scale)
        check_softmax_scale(self.softmax_scale, self.attention)
        check_center(self.center, self.attention)
        check_reference_pixels(self.reference_pixels, self.attention, self.scale)
        init = default_init(self.attention) if self.init is None else self.init
        check_init(init, self.norm, self.norm_init)
        names = biased(self.bias)
        if not isinstance(self.bias, bool):
            object.__setattr__(self, "bias", names)
        check_name("memory", self.memory, MEMORIES)
        object.__setattr__(self, "key_pool_size", check_key_pool(self.key_pool, self.key_pool_size))
        check_order(self.order, orders_of(self.attention, self.view, key_pool=self.key_pool))

    def as_options(self) -> dict[str, Any]:
        """The keyword arguments of a block."""
        return asdict(self)


@dataclass(frozen=True)
class StackConfig:
    """A stack of equal blocks and its place in a network."""

    block: BlockConfig = field(default_factory=BlockConfig)
    count: int = 3
    """How many blocks, back to back; 0 is the network without any"""
    stage: int = 2
    """Before the last residual block of which stage they go, counted from 1"""

    def __post_init__(self) -> None:
        check_positive("stage", self.stage)
        if not isinstance(self.count, int) or isinstance(self.count, bool) or self.count < 0:
            raise ValueError(f"count={self.count!r} must be a whole number of at least 0")


@dataclass(frozen=True)
class Placement:
    """Where a stack of blocks is in a network from elsewhere, as `insert_nonlocal` found it."""

    path: str
    """The module that it runs behind"""
    where: str
    """The path of the stack below that module"""
    channels: int
    dims: int = 2
    """Axes of space"""
    channel_axis: int = 1
    prefix: int = 0
    """Class and register tokens, which pass by the blocks"""

    def __post_init__(self) -> None:
        for name in ("path", "where"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ValueError(f"{name}={getattr(self, name)!r} must be the path of a module")
        if not self.where.rpartition(".")[2].startswith(STACK):
            raise ValueError(f"where={self.where!r} must end in a name that begins with {STACK}")
        check_positive("channels", self.channels)
        if self.dims not in (1, 2, 3) or self.channel_axis not in (1, -1):
            raise ValueError(f"no features have {self.dims=}, {self.channel_axis=}")
        if not isinstance(self.prefix, int) or self.prefix < 0:
            raise ValueError(f"prefix={self.prefix!r} must be a whole number of at least 0")

    @property
    def weights(self) -> str:
        """The prefix of the names of the stack's weights, with a dot."""
        return f"{self.path}.{self.where}."


@dataclass(frozen=True)
class ModelConfig:
    """All that is needed to make a network again."""

    name: str
    num_classes: int
    blocks: StackConfig | None = None
    position: bool | None = None
    dropout: float = 0.0
    placements: tuple[Placement, ...] = ()
    """Where the stacks are, in a network from elsewhere; built-in ones have a stage"""

    def __post_init__(self) -> None:
        check_dropout(self.dropout)
        if self.placements and not is_foreign(self.name):
            raise ValueError(f"{self.name} has a stage for its blocks, and no placements")

    @property
    def count(self) -> int:
        """Blocks in every stack."""
        return 0 if self.blocks is None else self.blocks.count

    @property
    def stacks(self) -> tuple[str, ...]:
        """The prefixes of the names of the stacks' weights."""
        if is_foreign(self.name):
            return tuple(placement.weights for placement in self.placements)
        return ("stack.",)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file; placements only where there are some."""
        values = asdict(self)
        if not self.placements:
            del values["placements"]
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ModelConfig":
        """Undo `as_dict`; unknown names fail.

        Older files have the options of the block, their number and their stage side by side under
        `nonlocal_`.
        """
        values = dict(values)
        if "nonlocal_" in values:
            options = values.pop("nonlocal_")
            values["blocks"] = None if options is None else _nested(dict(options))
        if values.get("blocks") is not None:
            stack = dict(values["blocks"])
            options = dict(stack.pop("block", {}))
            for name in ("bias", "key_pool_size"):
                if isinstance(options.get(name), list):
                    options[name] = tuple(options[name])
            values["blocks"] = StackConfig(BlockConfig(**options), **stack)
        places = values.get("placements", ())
        values["placements"] = tuple(Placement(**place) for place in places)
        return cls(**values)


def _nested(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a stack as older files have them, in today's form."""
    place = {"blocks": "count", "stage": "stage"}
    stack = {new: options.pop(old) for old, new in place.items() if old in options}
    return {"block": options, **stack}
