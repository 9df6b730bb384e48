"""The block as an attention layer of timm: `block_args=dict(attn_layer=ScaledNonLocal2d)`.

timm finds its own layers by name in a fixed list, so this one is passed as a class, or with options
as `functools.partial(ScaledNonLocal2d, heads=8)`.
"""

from typing import Any

from scalednl.integrations.framework_block import FrameworkBlock
from scalednl.integrations.requirement import require

require("timm", used_by=__name__, install="timm")


class ScaledNonLocal2d(FrameworkBlock):
    """A `scalednl.NonLocal2d` for `attn_layer` and `se_layer` of timm's networks.

    Options are those of `scalednl.NonLocal2d`. `act_layer`, which some networks pass to every
    attention layer, has no effect: a non-local block has no activation.
    """

    def __init__(self, channels: int, *, act_layer: Any = None, **options: Any) -> None:  # noqa: ARG002
        super().__init__(channels, **options)

    def init_weights(self, zero_init_last: bool = False) -> None:  # noqa: ARG002
        """Start anew; `norm_init` decides how, not `zero_init_last`."""
        self.reset_parameters()

    def zero_init_last(self) -> None:
        """Start anew: ResNets call this, and not `init_weights`, after drawing convolutions."""
        self.reset_parameters()
