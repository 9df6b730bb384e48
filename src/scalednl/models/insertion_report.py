"""What `insert_nonlocal` reports."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Insertion:
    """One stack that was put in."""

    path: str
    """The module that it runs behind"""
    weights: str
    """The prefix of its weights' names in the state_dict"""
    layout: str
    """The axes of the module's output: NCHW, NHWC, tokens, NCL, NCTHW or NTHWC"""
    channels: int
    space: tuple[int, ...]
    """Height and width for the example; for sequences and videos their own axes"""
    prefix: int
    """Class and register tokens, which pass by the blocks"""
    calls: int
    """How often one forward pass runs it"""
    count: int
    """Blocks, back to back"""
    parameters: int
    order: str
    multiply_adds: int
    """For the forward pass of one image, all blocks and calls"""

    def __str__(self) -> str:
        size = "x".join(map(str, (self.channels, *self.space)))
        size += f" x{self.calls}" if self.calls > 1 else ""
        costs = f"{self.parameters:>11,} {self.multiply_adds / 1e6:>12.1f} M"
        prefix = f"+{self.prefix}" if self.prefix else ""
        return f"{self.path:<24} {size:>16} {self.layout + prefix:>8} {costs}  {self.order}"


@dataclass(frozen=True)
class Checks:
    """What was found when the model was compared with itself before."""

    difference: float | None
    """Largest difference from the original output, relative to its largest value; 0 is equal bit
    for bit, None not compared"""
    held: tuple[str, ...]
    """Places whose gradient is 0 until a later layer, which starts at 0, has moved"""

    def __str__(self) -> str:
        facts = ["output shape unchanged", "every new parameter receives gradient"]
        if self.held:
            facts[1] += f" (at {', '.join(self.held)} after a later layer has moved from 0)"
        if self.difference is None:
            facts.append("output not compared")
        elif self.difference:
            facts.append(f"output equal within rounding ({self.difference:.0e})")
        else:
            facts.append("output equal, bit for bit")
        return "; ".join(facts)


@dataclass(frozen=True)
class InsertionReport:
    """Where blocks went in, what they cost, and what was checked."""

    insertions: tuple[Insertion, ...]
    checks: Checks | None
    """None with check=False"""

    @property
    def unchanged(self) -> bool:
        """Whether the output was compared with the original's and found equal, bit for bit."""
        return self.checks is not None and self.checks.difference == 0

    @property
    def parameters(self) -> int:
        """Parameters added in all."""
        return sum(insertion.parameters for insertion in self.insertions)

    def __str__(self) -> str:
        heading = f"{'after':<24} {'features':>16} {'layout':>8} {'parameters':>11} "
        heading += f"{'multiply-adds':>14}  order"
        done = f"; {self.checks}" if self.checks else "; nothing else, by check=False"
        last = f"checked: each stack runs once per call{done}"
        return "\n".join([heading, *map(str, self.insertions), last])
