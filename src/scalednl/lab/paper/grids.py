"""Grids of trainings: what tables and figures of the paper, and controls, consist of."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scalednl.lab.config import Experiment
from scalednl.lab.config.experiment import SCALED
from scalednl.lab.paper.provenance import provenance
from scalednl.lab.paper.scales import PaperSetting, Scale

SCALED_ONLY = frozenset({"scale", "center", "reference_pixels"})
"""Options that other blocks do not have"""
NETWORKS = {
    "PreResNet32": "preresnet32",
    "PreResNet56": "preresnet56",
    "PreResNet110": "preresnet110",
    "WRN-28-10": "wrn28_10",
    "PreResNet50": "preresnet50_tiny",
}


@dataclass(frozen=True)
class Cell:
    """One number of a table: its place, its training, and what the paper prints."""

    row: str
    """The attention, or another name that distinguishes rows of one data set and network"""
    column: str
    setting: PaperSetting
    printed: float | None = None
    inferred: str = ""
    """Which part of the setting the paper does not print, and what it was inferred from"""


@dataclass(frozen=True)
class OwnAttention:
    """An attention of a user's own beside those of the paper."""

    name: str
    code: str
    """NAME=FINGERPRINT"""
    label: str
    """The name of its rows and columns"""


@dataclass(frozen=True)
class Artefact:
    """A table or figure."""

    name: str
    title: str
    caption: str
    cells: tuple[Cell, ...]
    is_control: bool = False
    """Not in the paper"""
    inferred: str = ""
    """What is inferred about all cells"""
    seeds: int | None = None
    """Number of seeds of every cell; None: as many as the scale has"""
    first_seeds: int | None = None
    """Number of seeds of all cells that run first, then the others, then the next grid; None: the
    first seeds of all grids run before the second ones"""
    shows_maps: bool = False
    """Whether it shows what the blocks of its runs attend to"""
    own: tuple[OwnAttention, ...] = ()
    """Attentions of a user's own that it has beside those of the paper"""
    part: str = ""
    """The values that its cells were chosen by; empty if it has all of them"""

    def with_marks(self) -> "Artefact":
        """The same with its inferred settings named."""
        known = provenance()
        cells = tuple(
            replace(c, inferred=known.inferred_about(self.name, c.setting.data, c.column))
            for c in self.cells
        )
        return replace(self, inferred=known.inferred_figures.get(self.name, ""), cells=cells)

    def with_own(self, own: Sequence[OwnAttention]) -> "Artefact":
        """The same with the cells of scaled blocks once more for each attention of a user's own.

        Options that only scaled blocks have are left out.
        """
        cells = list(self.cells)
        for one in own:
            for cell in self.cells:
                setting, options = cell.setting, dict(cell.setting.options)
                if setting.attention != SCALED or not SCALED_ONLY.isdisjoint(options):
                    continue
                row, column = (one.label if v == SCALED else v for v in (cell.row, cell.column))
                setting = replace(setting, attention=one.name, code=one.code)
                cells.append(Cell(row, column, setting))
        return replace(self, cells=tuple(cells), own=tuple(own))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of columns, in the order of their first cells."""
        return tuple(dict.fromkeys(cell.column for cell in self.cells))

    def trainings(self, scale: Scale) -> list[tuple[Cell, Experiment]]:
        """The cells that exist at a scale, each with its experiment at seed 0."""
        placed = ((cell, scale.experiment(cell.setting)) for cell in self.cells)
        return [(cell, experiment) for cell, experiment in placed if experiment is not None]


def paper_setting(
    data: str,
    attention: str,
    network: str = "preresnet56",
    *,
    heads: int = 1,
    embed_share: int = 1,
    position: bool | None = None,
    **options: Any,
) -> PaperSetting:
    """A setting by name, Table 1's unless something else is given; `options` are the blocks'."""
    chosen = tuple(sorted(options.items()))
    return PaperSetting(data, network, attention, heads, chosen, embed_share, position)
