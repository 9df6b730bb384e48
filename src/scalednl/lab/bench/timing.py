"""Runs of one step, summed up: median, quartiles, and ratios that have enough runs behind them."""

from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

MIN_REPEATS = 5
"""From fewer runs no ratio is given"""


@dataclass(frozen=True)
class Timing:
    """Seconds of the runs of one step, in the order in which they were taken."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle run."""
        return median(self.runs)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Half of the runs lie between these two."""
        if len(self.runs) == 1:
            return self.runs[0], self.runs[0]
        low, _, high = quantiles(self.runs, n=4, method="inclusive")
        return low, high

    def ratio(self, other: "Timing") -> float:
        """This median over the other; refused with fewer than `MIN_REPEATS` runs of either."""
        fewest = min(len(self.runs), len(other.runs))
        if fewest < MIN_REPEATS:
            raise ValueError(f"a ratio of {fewest} runs says little: take {MIN_REPEATS} or more")
        return self.median / other.median

    def extra(self, base: "Timing") -> "Timing":
        """What this step took longer than `base` in the same round: slow rounds cancel."""
        pairs = zip(self.runs, base.runs, strict=True)
        return Timing(tuple(run - other for run, other in pairs))

    def as_dict(self) -> dict[str, Any]:
        """Plain values in milliseconds, for a file."""
        low, high = self.quartiles
        return {
            "median_ms": _ms(self.median),
            "quartiles_ms": [_ms(low), _ms(high)],
            "runs_ms": [_ms(run) for run in self.runs],
        }

    def __str__(self) -> str:
        """The median and the quartiles around it, in milliseconds."""
        digits = 0 if self.median >= 0.1 else 1 if self.median >= 0.01 else 2
        middle, low, high = (f"{v * 1e3:.{digits}f}" for v in (self.median, *self.quartiles))
        return f"{middle} ({low}-{high})"


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 4)
