"""The page's section on cost: the newest record of each benchmark as a chart."""

from dataclasses import dataclass

from scalednl.lab.charts.cost import draw
from scalednl.lab.records.bench import BenchRecord
from scalednl.lab.records.origin import Origin

SHOWN = {
    "table3": ("Table 3. What three blocks cost a PreResNet-56", "scalednl bench table3"),
    "scaling": ("Cost over the size of the map", "scalednl bench scaling"),
    "blocks": ("One block, forward and backward", "scalednl demo"),
    "orders": ("Orders of multiplication", "scalednl bench orders"),
}
"""Title, and the command that measures it"""


@dataclass(frozen=True)
class CostSection:
    """One benchmark on the page."""

    kind: str
    title: str
    chart: str
    measured_by: str
    """The command that measures it"""
    quick: bool
    origin: Origin


def cost_section(record: BenchRecord) -> CostSection:
    """What the page shows of a record."""
    title, command = SHOWN[record.KIND]
    command += " --quick" * (record.quick and record.KIND != "blocks")
    return CostSection(*(record.KIND, title, draw(record), command, record.quick, record.origin))
