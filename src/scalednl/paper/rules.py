"""What was fixed before any run: margins, levels, and when results may be looked at."""

from collections.abc import Mapping
from dataclasses import dataclass

LOOK_LEVEL = 0.017
"""p at each of four looks that keeps the chance of a false alarm at 5 % over all of them"""
FIXED_LEVEL = 0.05
"""p where the number of seeds is fixed beforehand"""
POWER = 0.8
OFTEN = 1 / 3
"""What "often diverges" is taken to mean: more than one training in three"""
OFTEN_SEEDS = 8
"""Trainings after which "often" is judged where results are looked at several times"""
LINEAR = (0.9, 1.1)
"""Exponents that count as linear"""


@dataclass(frozen=True)
class Rule:
    """How claims are judged at one scale."""

    margins: Mapping[str, float]
    """By data set: the smallest difference in test error that matters, in points"""
    run_sd: Mapping[str, float]
    """By data set: the standard deviation of one run's test error, assumed until it is measured"""
    looks: tuple[int, ...] = ()
    """Numbers of seeds at which results are judged; empty: once, whatever their number"""
    score_margin: float = 0.05
    """The smallest difference that matters of a score between 0 and 1"""
    note: str = ""

    @property
    def level(self) -> float:
        """The p below which a difference counts."""
        return LOOK_LEVEL if self.looks else FIXED_LEVEL

    def seeds_used(self, n: int) -> int:
        """How many of n seeds are judged: the largest look reached, or all."""
        if not self.looks:
            return n
        return max((look for look in self.looks if look <= n), default=0)


RULES: dict[str, Rule] = {
    "smoke": Rule(
        margins={"pairs": 5.0},
        run_sd={"pairs": 3.0},
        note="generated images: nothing here bears on the paper's data",
    ),
    "lite": Rule(
        margins={"cifar10": 1.0, "cifar100": 1.5},
        run_sd={"cifar10": 0.8, "cifar100": 0.8},
        looks=(4, 6, 9, 12),
        note="few steps: what is judged is how fast a network learns",
    ),
    "paper": Rule(
        margins={"cifar10": 0.15, "cifar100": 0.35, "tiny-imagenet": 0.35},
        run_sd={"cifar10": 0.17, "cifar100": 0.35, "tiny-imagenet": 0.35},
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
    "diverges-without-scale",
)
"""Claims whose verdicts are corrected for their number (Holm); the others are descriptive"""
