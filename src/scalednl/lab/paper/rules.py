"""Margins, levels, and when results may be looked at.

Margins and looks were fixed before any run; docs/results.md says what changed since.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

LOOK_LEVELS = (0.017, 0.010, 0.009, 0.0075)
"""p at each of four looks that keeps the chance of a false alarm at about 5 % over all of them, in
claims of 1, 2, 3 and 4 rows: rows reach their looks one after the other, in the order of the plan,
and each step is another look"""
FIXED_LEVEL = 0.05
"""p where the number of seeds is fixed beforehand"""
POWER = 0.8
OFTEN = 1 / 3
"""What "often diverges" is taken to mean: more than one training in three"""
OFTEN_SEEDS = 8
"""Trainings from which on "often" is judged"""
LINEAR = (0.9, 1.1)
"""Exponents that count as linear"""


@dataclass(frozen=True)
class Rule:
    """How claims are judged at one scale."""

    margins: Mapping[str, float]
    """By data set: the smallest difference in test error that matters, in points"""
    run_sd: Mapping[str, float]
    """By data set: the standard deviation of one run's test error, assumed until it is measured"""
    looks: tuple[int, ...]
    """Numbers of seeds at which results are judged; other numbers wait for the next"""
    data_looks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The same for data sets that have others"""
    levels: tuple[float, ...] = (FIXED_LEVEL,)
    """The p below which a difference counts, for claims of 1, 2, ... rows"""
    score_margin: float = 0.05
    """The smallest difference that matters of a score between 0 and 1"""
    note: str = ""

    def level(self, rows: int) -> float:
        """The p below which a difference counts in a claim of so many rows."""
        return self.levels[min(rows, len(self.levels)) - 1]

    def looks_at(self, data: str) -> tuple[int, ...]:
        """Numbers of seeds at which a data set's results are judged."""
        return self.data_looks.get(data, self.looks)

    def seeds_used(self, n: int, data: str) -> int:
        """How many of n seeds are judged: the largest look reached."""
        return max((look for look in self.looks_at(data) if look <= n), default=0)


RULES: dict[str, Rule] = {
    "smoke": Rule(
        margins={"pairs": 5.0},
        run_sd={"pairs": 3.0},
        looks=(2,),
        note="generated images: nothing here bears on the paper's data",
    ),
    "lite": Rule(
        margins={"cifar10": 1.0, "cifar100": 1.5},
        run_sd={"cifar10": 0.8, "cifar100": 0.8},
        looks=(4, 6, 9, 12),
        levels=LOOK_LEVELS,
        note="few steps: what is judged is how fast a network learns",
    ),
    "paper": Rule(
        margins={"cifar10": 0.15, "cifar100": 0.35, "tiny-imagenet": 0.35},
        run_sd={"cifar10": 0.17, "cifar100": 0.35, "tiny-imagenet": 0.35},
        looks=(10,),
        data_looks={"tiny-imagenet": (3,)},
    ),
}
"""By scale"""

PRIMARY = (
    "scaled-beats-softmax",
    "scaled-always-beats-softmax",
    "softmax-directions-are-severely-worse",
    "magnitudes-are-comparable",
    "scaled-makes-more-of-directions",
    "softmax-loses-without-magnitude",
    "softmax-needs-small-init",
    "scaled-likes-he",
    "scaled-is-robust-to-init",
    "scaled-is-robust-to-channels",
    "scaled-blocks-help",
    "softmax-maps-are-vertical",
)
"""Claims whose verdicts are corrected for their number (Holm); the others are descriptive"""
