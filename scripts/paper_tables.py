"""The generated parts of docs/paper.md: what follows from the printed numbers."""

from scalednl.lab.paper.provenance import as_markdown
from scalednl.lab.report.markdown import (
    contradiction_list,
    contrast_table,
    noise_line,
    position_table,
    power_table,
)
from scalednl.lab.report.printed_numbers import printed_numbers


def paper_parts() -> dict[str, str]:
    """The tables and sentences, by the names of their places."""
    numbers = printed_numbers()
    return {
        "provenance": as_markdown(),
        "noise": noise_line(numbers),
        "contrasts": contrast_table(numbers),
        "position": position_table(numbers.position),
        "power": power_table(numbers.power),
        "contradictions": contradiction_list(numbers.contradictions),
    }
