"""The block where a framework makes it from a configuration and initialises the network."""

from inspect import Parameter, signature
from typing import Any

from scalednl.blocks import NonLocal2d
from scalednl.options import suggestion

OPTIONS = tuple(
    parameter.name
    for parameter in signature(NonLocal2d).parameters.values()
    if parameter.kind is Parameter.KEYWORD_ONLY
)
"""The options of a block, which a configuration passes by name"""


class FrameworkBlock(NonLocal2d):
    """A `NonLocal2d` that starts as its options ask, whoever else initialises the network.

    Frameworks draw every convolution and set every norm of a new network. They then call
    `init_weights` of the modules that have one, which restores `init` and `norm_init` here.
    """

    def __init__(self, channels: int, **options: Any) -> None:
        for name, value in options.items():
            if name not in OPTIONS:
                near = suggestion(name, OPTIONS) or f": there are {', '.join(OPTIONS)}"
                raise TypeError(f"{type(self).__name__} has no option {name}={value!r}{near}")
        super().__init__(channels, **options)

    def init_weights(self) -> None:
        """Start anew."""
        self.reset_parameters()
