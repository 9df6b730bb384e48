"""The ways to compute a block that benchmarks compare, and their colours. Imports no torch."""

from dataclasses import dataclass

from scalednl.lab.console import counted
from scalednl.options import Attention, Memory, Order


@dataclass(frozen=True)
class Method:
    """One way to compute a block: the options that choose it, and its colour in charts."""

    name: str
    colour: str
    attention: Attention = "scaled"
    order: Order = "auto"
    memory: Memory = "auto"
    rows: bool = False
    """The associative order by products on (batch, pixels, channels), not by convolutions"""

    @property
    def label(self) -> str:
        """The name with its attention."""
        return self.name if self.attention == "softmax" else f"scaled {self.name}"


METHODS = {
    method.name: method
    for method in (
        Method("softmax plain", "red", attention="softmax", order="quadratic"),
        Method("softmax fused", "purple", attention="softmax", order="fused"),
        Method("quadratic", "grey", order="quadratic"),
        Method("associative", "blue", order="associative"),
        Method("associative, rows", "blue", order="associative", rows=True),
        Method("auto", "green"),
        Method("auto, lean", "green", memory="lean"),
    )
}
MAIN_METHODS = ("softmax plain", "softmax fused", "associative", "auto")
"""Those that are compared everywhere"""


def with_heads(method: str, heads: int) -> str:
    """A method and its heads in words; 0 heads are no blocks."""
    return f"{method}, {counted(heads, 'head')}" if heads else method
