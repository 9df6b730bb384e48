"""The declared plan of the evidence on real images: which trainings, how many, in which order.

Declared before the first run: the lines, their seeds, the numbers of seeds at which results may be
looked at, and the smallest differences that matter (`paper.rules`). A line's first seeds come
before its last ones, and all of a line before the next, so that the plan can stop anywhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from scalednl.lab.paper.grids import Artefact, Cell, cifar56
from scalednl.lab.paper.rules import OFTEN, OFTEN_SEEDS, POWER, PRIMARY, RULES
from scalednl.lab.paper.scales import PaperSetting, Scale, run_name
from scalednl.lab.paper.tables import BLOCKS

FIRST_LOOK = 4
"""Seeds of a line that are trained before its other seeds"""


@dataclass(frozen=True)
class Line:
    """One line of the plan: some trainings that decide something together."""

    number: int
    cells: tuple[tuple[str, PaperSetting], ...]
    """Each with a name"""
    seeds: int
    decides: str

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
        )


def declared_plan(scale: Scale) -> dict[str, Any]:
    """What was declared before the first run, as plain values, for the file of that name."""
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
def evidence_lines() -> tuple[Line, ...]:
    """The plan, in order."""
    return tuple(_lines())


def _both(data: str = "cifar10", **values: object) -> tuple[tuple[str, PaperSetting], ...]:
    return tuple((name, cifar56(data, name, **values)) for name in BLOCKS)


def _views(data: str) -> tuple[tuple[str, PaperSetting], ...]:
    return tuple(
        (f"{name}, {view}", cifar56(data, name, **({} if view == "base" else {"view": view})))
        for name in BLOCKS
        for view in ("base", "magnitude", "direction")
    )


def _position(data: str) -> tuple[str, PaperSetting]:
    return "position only", cifar56(data, "plain", position=True)


def _network(data: str, network: str) -> tuple[tuple[str, PaperSetting], ...]:
    return tuple(
        (f"{network}, {name}", PaperSetting(data, network, name, heads=4)) for name in BLOCKS
    )


def _lines() -> Iterator[Line]:
    plain = ("plain", cifar56("cifar10", "plain"))
    yield Line(
        1,
        (plain, *_both(heads=4)),
        6,
        "scaled beats softmax; blocks help; Figure 1",
    )
    yield Line(2, (_position("cifar10"),), 6, "zero initialisation; is it the position")
    yield Line(3, _views("cifar10"), 6, "Table 1; heads")
    yield Line(
        4,
        (
            ("softmax, He", cifar56("cifar10", "softmax", init="he")),
            ("scaled, 0.01", cifar56("cifar10", "scaled", init=0.01)),
        ),
        6,
        "Table 2",
    )
    yield Line(5, _both(embed_share=8), 6, "Figure 2")
    learned = cifar56("cifar10", "softmax", view="direction", softmax_scale="learned")
    yield Line(
        6,
        (("softmax, direction, learned temperature", learned),),
        6,
        "whether Table 1 is only a matter of temperature",
    )
    yield Line(7, (), 6, "whether centred keys help; waits for that option of the block")
    yield Line(
        8,
        _network("cifar100", "preresnet32"),
        4,
        "the paper's own network at its largest gap: does an effect outlast early training",
    )
    yield Line(9, (*_both("cifar100", heads=4), _position("cifar100")), 6, "the second data set")
    no_scale = cifar56("cifar10", "scaled", scale=False)
    yield Line(10, (("scaled, no factor", no_scale),), 8, "often diverges")
    yield Line(
        11, _both(heads=4, norm_init=0.0), 6, "whether batch norm starting at 1 makes the result"
    )
    yield Line(12, _views("cifar100"), 6, "Table 1 on the second data set")
    yield Line(
        13,
        (
            *_both(heads=4, position=False),
            *_network("cifar10", "preresnet8"),
            *_network("cifar10", "preresnet32-short"),
        ),
        6,
        "controls: position and depth",
    )
