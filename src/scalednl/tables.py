"""Tables that are Markdown and read well as text."""

from collections.abc import Sequence


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, and an empty line after it."""
    print(f"{table_text(head, rows)}\n", flush=True)


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with words to the left and numbers to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    right = [i > 0 and all(_numeric(row[i]) for row in rows) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        return f"| {' | '.join(cells)} |"

    rule = "|".join("-" * (w + 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True))
    return "\n".join([line(head), f"|{rule}|", *(line(row) for row in rows)])


def _numeric(cell: str) -> bool:
    return not cell or cell[0] in "0123456789x-<"
