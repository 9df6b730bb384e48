"""Options of blocks and networks: frozen, checked when made, without torch."""

from dataclasses import asdict, dataclass, field
from typing import Any

from scalednl.options import (
    KEY_POOLS,
    MEMORIES,
    Attention,
    Bias,
    Center,
    KeyPool,
    Memory,
    Order,
    ReferencePixels,
    View,
    biased,
    check_attention_options,
    check_center,
    check_init,
    check_name,
    check_order,
    check_positive,
    check_reference_pixels,
    check_softmax_scale,
    default_init,
    orders_of,
)


@dataclass(frozen=True)
class BlockConfig:
    """The options of a non-local block: those of `scalednl.NonLocal2d` that a file can hold.

    What depends on the channels, such as whether `heads` divides them, is checked when the block is
    made.
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
        if self.key_pool is not None:
            check_name("key_pool", self.key_pool, KEY_POOLS)
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
class ModelConfig:
    """All that is needed to make a network again."""

    name: str
    num_classes: int
    blocks: StackConfig | None = None
    position: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

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
            if isinstance(options.get("bias"), list):
                options["bias"] = tuple(options["bias"])
            values["blocks"] = StackConfig(BlockConfig(**options), **stack)
        return cls(**values)


def _nested(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a stack as older files have them, in today's form."""
    place = {"blocks": "count", "stage": "stage"}
    stack = {new: options.pop(old) for old, new in place.items() if old in options}
    return {"block": options, **stack}
