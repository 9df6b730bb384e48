"""A table in Markdown."""

from collections.abc import Sequence


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows below a head, with every cell escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_escape(cell) for cell in line)} |" for line in lines)


def _escape(text: str) -> str:
    """Text that stays text: no column of its own, no tag."""
    text = " ".join(text.split())
    for letter, written in (("\\", "\\\\"), ("&", "&amp;"), ("<", "&lt;"), ("|", "\\|")):
        text = text.replace(letter, written)
    # A link needs its "](" and code its quotes.
    return text.replace("](", "]\\(").replace("`", "\\`")
