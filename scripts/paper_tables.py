"""The generated parts of docs/paper.md: `python -m scripts.paper_tables` writes them."""

from pathlib import Path

from scalednl.lab.paper.provenance import as_markdown
from scalednl.lab.report.markdown import (
    contradiction_list,
    contrast_table,
    noise_line,
    position_table,
    power_table,
)
from scalednl.lab.report.printed_numbers import printed_numbers
from scripts.parts import with_parts

PAGE = Path(__file__).parents[1] / "docs" / "paper.md"


def with_tables(page: str) -> str:
    """The page with every generated part made anew."""
    numbers = printed_numbers()
    parts = {
        "provenance": as_markdown(),
        "noise": noise_line(numbers),
        "contrasts": contrast_table(numbers),
        "position": position_table(numbers.position),
        "power": power_table(numbers.power),
        "contradictions": contradiction_list(numbers.contradictions),
    }
    return with_parts(page, parts)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
