"""Options of blocks and networks: frozen, checked when made, without torch."""

from dataclasses import asdict, dataclass
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
class NonLocalConfig:
    """A stack of non-local blocks and its place in a network.

    The options of one block are those of `scalednl.NonLocal2d`; what depends on the channels of the
    place, such as whether `heads` divides them, is checked when the network is made.
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
    blocks: int = 3
    """How many blocks, back to back; 0 is the network without any"""
    stage: int = 2
    """Before the last residual block of which stage they go, counted from 1"""

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
        check_positive("stage", self.stage)
        if not isinstance(self.blocks, int) or isinstance(self.blocks, bool) or self.blocks < 0:
            raise ValueError(f"blocks={self.blocks!r} must be a whole number of at least 0")

    def block_options(self) -> dict[str, Any]:
        """The keyword arguments of one block."""
        options = asdict(self)
        del options["blocks"], options["stage"]
        return options


@dataclass(frozen=True)
class ModelConfig:
    """All that is needed to make a network again."""

    name: str
    num_classes: int
    nonlocal_: NonLocalConfig | None = None
    position: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ModelConfig":
        """Undo `as_dict`; unknown names fail."""
        values = dict(values)
        if values.get("nonlocal_") is not None:
            options = dict(values["nonlocal_"])
            if isinstance(options.get("bias"), list):
                options["bias"] = tuple(options["bias"])
            values["nonlocal_"] = NonLocalConfig(**options)
        return cls(**values)
