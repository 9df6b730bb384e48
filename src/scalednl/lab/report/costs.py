"""The page's section on cost: the newest record of each benchmark as a chart."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scalednl.lab.charts.cost import draw
from scalednl.lab.records.bench import BenchRecord

TITLES = {
    "table3": "Table 3. What three blocks cost a PreResNet-56",
    "scaling": "Cost over the size of the map",
    "blocks": "One block, forward and backward",
    "orders": "Orders of multiplication",
}


@dataclass(frozen=True)
class CostSection:
    """One benchmark on the page."""

    kind: str
    title: str
    chart: str
    measured_by: str
    """The command that measures the same"""
    quick: bool
    origin: dict[str, Any]


def cost_sections(records: Sequence[BenchRecord]) -> list[dict[str, Any]]:
    """What the page shows of each record, as plain values."""
    return [asdict(_section(record)) for record in records]


def _section(record: BenchRecord) -> CostSection:
    kind = record.KIND
    command = "scalednl demo" if kind == "blocks" else f"scalednl bench {kind}"
    if record.quick and kind != "blocks":
        command += " --quick"
    return CostSection(
        kind, TITLES[kind], draw(record), command, record.quick, record.origin.as_dict()
    )
