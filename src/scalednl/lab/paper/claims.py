"""What the paper claims, each as a contrast between trainings of the same seed.

`claims.json` lists the claims in the paper's order, questions of this project last. A claim has a
row for each data set and network of its table; its kind names the rule of `paper.answers` that
judges it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import msgspec

from scalednl.lab.config import Experiment
from scalednl.lab.paper.answers import Kind
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.grids import OwnAttention
from scalednl.lab.paper.rules import PRIMARY
from scalednl.lab.paper.scales import PaperSetting, Scale
from scalednl.lab.paper.tables import BLOCKS, content

DIVERGED = "diverged"
"""The quantity of claims that count divergences"""


@dataclass(frozen=True)
class Term:
    """One training's part in a contrast."""

    weight: int
    setting: PaperSetting
    quantity: str = "error"
    """"error" is the last epoch's test error in percent; other names are scores of attention"""


ClaimRow = tuple[Term, ...]


@dataclass(frozen=True)
class Claim:
    """sum of weight * quantity, seed by seed, in one or more rows."""

    name: str
    says: str
    """The claim in a sentence"""
    kind: Kind
    artefact: str
    """The table or figure that has its trainings"""
    terms: tuple[tuple[int, str, str], ...]
    """Weight, row and column of cells of that table, in each of its data sets and networks"""
    quantity: str = "error"
    """The measurement that is contrasted"""
    is_ours: bool = False
    """A question of this project, not a claim of the paper"""
    own: tuple[OwnAttention, ...] = ()
    """Attentions of a user's own that it is about"""

    @property
    def is_primary(self) -> bool:
        """Whether its verdict is corrected for the number of claims."""
        return self.name in PRIMARY

    @cached_property
    def rows(self) -> tuple[ClaimRow, ...]:
        """The contrast in each data set and network of its table."""
        places: dict[tuple[str, str], dict[tuple[str, str], PaperSetting]] = {}
        for cell in artefacts(self.own)[self.artefact].cells:
            place = cell.setting.data, cell.setting.network
            places.setdefault(place, {})[cell.row, cell.column] = cell.setting
        return tuple(
            tuple(
                Term(weight, at[row, column], self.quantity) for weight, row, column in self.terms
            )
            for at in places.values()
        )

    def is_testable(self, scale: Scale) -> bool:
        """Whether a scale can test it; "everywhere" needs two places."""
        return len(self.distinct_rows(scale)) >= (2 if self.kind == "always" else 1)

    def distinct_rows(self, scale: Scale) -> set[tuple[str, ...]]:
        """The cells of the rows that exist at a scale; rows with the same trainings are one."""
        return {tuple(one.cell for one in experiments) for _, experiments in self.at(scale)}

    def at(self, scale: Scale) -> Iterator[tuple[ClaimRow, tuple[Experiment, ...]]]:
        """The rows whose trainings all exist at a scale, with these."""
        for terms in self.rows:
            placed = [scale.experiment(term.setting) for term in terms]
            experiments = tuple(one for one in placed if one is not None)
            if len(experiments) == len(terms):
                yield terms, experiments


@cache
def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the file."""
    return msgspec.json.decode(content("claims.json"), type=tuple[Claim, ...])


def own_claims(own: Sequence[OwnAttention]) -> Iterator[Claim]:
    """Whether each attention of a user's own beats those of the paper: with 1 head, and with 4."""
    for one in own:
        for other in BLOCKS:
            for heads, artefact, mine, theirs in (
                ("1 head", "table1_importance", (one.label, "base"), (other, "base")),
                ("4 heads", "table4_backbones", ("4 heads", one.label), ("4 heads", other)),
            ):
                yield Claim(
                    f"{one.label}-beats-{other}-{heads.replace(' ', '-')}",
                    f"With {heads}, {one.label} blocks give a lower error than {other} blocks",
                    "better",
                    artefact,
                    ((1, *theirs), (-1, *mine)),
                    is_ours=True,
                    own=(one,),
                )


def main_claims(scale: Scale) -> list[str]:
    """The claims over which a scale's verdicts are corrected."""
    return [claim.name for claim in claims() if claim.is_primary and claim.is_testable(scale)]
