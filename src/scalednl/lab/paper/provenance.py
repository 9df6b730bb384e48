"""Where each choice comes from: the paper's text, the authors' release, or this project.

`docs/paper.md` and the report print this list; nothing else may call a choice "the paper's" that
has no entry under `printed`. The lists are in `provenance.json`. Imports no torch.
"""

from dataclasses import dataclass
from functools import cache

import msgspec

from scalednl.lab.paper.tables import content

NOTHING = "not mentioned"
"""The words of `provenance.json` where nothing is said about a choice"""


@dataclass(frozen=True)
class PaperChoice:
    """One decision that a reproduction has to make."""

    topic: str
    printed: str
    """What the paper's text, tables or captions state"""
    release: str
    """What the authors' public code does"""
    ours: str


@dataclass(frozen=True)
class Contradiction:
    """Two printed statements that cannot both be right, or one that is missing."""

    subject: str
    details: str


@dataclass(frozen=True)
class Cells:
    """Some cells of a table; empty is all data sets, or all columns."""

    artefact: str
    data: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def include(self, artefact: str, data: str, column: str) -> bool:
        """Whether a cell is one of them."""
        here = artefact == self.artefact and data in (self.data or (data,))
        return here and column in (self.columns or (column,))


@dataclass(frozen=True)
class Inferred:
    """A part of a setting that the paper does not print."""

    reason: str
    """Which part it is, and what it was inferred from"""
    cells: tuple[Cells, ...]


@dataclass(frozen=True)
class Provenance:
    """All lists of `provenance.json`."""

    choices: tuple[PaperChoice, ...]
    inferred: tuple[Inferred, ...]
    inferred_figures: dict[str, str]
    """What is inferred about all cells of a figure"""
    contradictions: tuple[Contradiction, ...]

    def inferred_about(self, artefact: str, data: str, column: str) -> str:
        """What is inferred about a printed cell; "" where the text settles the setting."""
        reasons = (
            item.reason
            for item in self.inferred
            if any(cells.include(artefact, data, column) for cells in item.cells)
        )
        return next(reasons, "")


@cache
def provenance() -> Provenance:
    """The lists."""
    return msgspec.json.decode(content("provenance.json"), type=Provenance)


def as_markdown() -> str:
    """The table of `docs/paper.md`."""
    head = ["| choice | printed | from the authors' release | ours |", "|---|---|---|---|"]
    rows = [
        f"| {choice.topic} | {choice.printed} | {choice.release} | {choice.ours} |"
        for choice in provenance().choices
    ]
    return "\n".join([*head, *rows])
