"""The declared plan of the evidence on real images: which trainings, how many, in which order.

Declared before the first run: the lines and their seeds (`evidence.json`), the numbers of seeds at
which results may be looked at, and the smallest differences that matter (`paper.rules`). Line 7 was
declared without its training, which was added with the option that it waited for. A line's
first seeds come before its last ones, and all of a line before the next, so that the plan can stop
anywhere.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from scalednl.lab.paper.grids import Artefact, Cell, paper_setting
from scalednl.lab.paper.rules import OFTEN, OFTEN_SEEDS, POWER, PRIMARY, RULES
from scalednl.lab.paper.scales import PaperSetting, Scale, run_name
from scalednl.lab.paper.tables import content

FIRST_LOOK = 4
"""Seeds of a line that are trained before its other seeds"""


@dataclass(frozen=True)
class EvidenceLine:
    """One line of the plan: some trainings that decide something together."""

    number: int
    decides: str
    cells: tuple[tuple[str, PaperSetting], ...]
    """Each with a name"""
    seeds: int
    shows_maps: bool = False
    """Whether what the blocks of its runs attend to is part of the evidence"""

    @property
    def artefact(self) -> Artefact:
        """The line as a grid of trainings, for the planner."""
        return Artefact(
            f"evidence_{self.number:02}",
            f"Evidence, line {self.number}",
            self.decides,
            tuple(Cell(f"line {self.number}", name, setting) for name, setting in self.cells),
            is_control=True,
            seeds=self.seeds,
            first_seeds=FIRST_LOOK,
            shows_maps=self.shows_maps,
        )


def declared_plan(scale: Scale) -> dict[str, Any]:
    """The plan that was declared before the first run, as plain values for `plan.json`."""
    rule = RULES[scale.name]
    return {
        "scale": scale.name,
        "words": scale.words,
        "looks": list(rule.looks),
        "levels_by_rows": list(rule.levels),
        "power": POWER,
        "margins": dict(rule.margins),
        "score_margin": rule.score_margin,
        "often": OFTEN,
        "often_runs": OFTEN_SEEDS,
        "primary_claims": list(PRIMARY),
        "lines": [
            {
                "line": line.number,
                "decides": line.decides,
                "seeds": line.seeds,
                "trainings": [
                    run_name(experiment).removesuffix("-seed0")
                    for _, experiment in line.artefact.trainings(scale)
                ],
            }
            for line in evidence_lines()
        ],
        "after": "9, then 12 seeds for claims that are still open, the cheapest hours first",
    }


@cache
def evidence_lines() -> tuple[EvidenceLine, ...]:
    """The plan, in order."""
    entries = msgspec.json.decode(content("evidence.json"), type=list[dict[str, Any]])
    return tuple(_line(**entry) for entry in entries)


def _line(
    number: int,
    decides: str,
    seeds: int,
    data: str,
    cells: list[dict[str, Any]],
    shows_maps: bool = False,
) -> EvidenceLine:
    def cell(name: str, **values: Any) -> tuple[str, PaperSetting]:
        return name, paper_setting(data, **values)

    made = tuple(cell(**values) for values in cells)
    return EvidenceLine(number, decides, made, seeds, shows_maps)
