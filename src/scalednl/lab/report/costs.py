"""The page's section on cost: the newest record of each benchmark as a chart."""

from typing import Any

from scalednl.lab.charts.cost import draw
from scalednl.lab.records.bench import BenchRecord

SHOWN = {
    "table3": ("Table 3. What three blocks cost a PreResNet-56", "scalednl bench table3"),
    "scaling": ("Cost over the size of the map", "scalednl bench scaling"),
    "blocks": ("One block, forward and backward", "scalednl demo"),
    "orders": ("Orders of multiplication", "scalednl bench orders"),
}
"""Title, and the command that measures it"""


def cost_section(record: BenchRecord) -> dict[str, Any]:
    """What the page shows of a record, as plain values."""
    title, command = SHOWN[record.KIND]
    return {
        "kind": record.KIND,
        "title": title,
        "chart": draw(record),
        "measured_by": command + " --quick" * (record.quick and record.KIND != "blocks"),
        "quick": record.quick,
        "origin": record.origin.as_dict(),
    }
