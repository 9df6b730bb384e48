"""Times of one step, run several times. Imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Annotated

import msgspec

MIN_REPEATS = 5
"""From fewer runs no ratio is computed"""

Positive = Annotated[float, msgspec.Meta(gt=0, le=1e15)]


@dataclass(frozen=True)
class Timing:
    """Milliseconds of the runs of one step: median, quartiles, and every run in its order."""

    median_ms: Positive
    quartiles_ms: tuple[Positive, Positive]
    runs_ms: Annotated[tuple[Positive, ...], msgspec.Meta(min_length=1)]
    page_faults: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Minor page faults of one run, the median; None where they are not counted"""

    @classmethod
    def of(cls, milliseconds: Sequence[float], page_faults: int | None = None) -> "Timing":
        """The summary of these runs, to a tenth of a microsecond."""
        low, high = milliseconds[0], milliseconds[0]
        if len(milliseconds) > 1:
            low, _, high = quantiles(milliseconds, n=4, method="inclusive")
        runs = tuple(round(run, 4) for run in milliseconds)
        quartiles = (round(low, 4), round(high, 4))
        return cls(round(median(milliseconds), 4), quartiles, runs, page_faults)

    def ratio(self, other: "Timing") -> float:
        """This median over the other; raises with fewer than `MIN_REPEATS` runs of either."""
        fewest = min(len(self.runs_ms), len(other.runs_ms))
        if fewest < MIN_REPEATS:
            raise ValueError(f"a ratio needs at least {MIN_REPEATS} runs, got {fewest}")
        return self.median_ms / other.median_ms

    def extra(self, base: "Timing") -> "Timing":
        """What this step took longer than `base`, round by round: slow rounds cancel."""
        pairs = zip(self.runs_ms, base.runs_ms, strict=True)
        return Timing.of([run - other for run, other in pairs])

    def __str__(self) -> str:
        """The median and the quartiles around it, in milliseconds."""
        digits = 0 if self.median_ms >= 100 else 1 if self.median_ms >= 10 else 2
        middle, low, high = (f"{v:.{digits}f}" for v in (self.median_ms, *self.quartiles_ms))
        return f"{middle} ({low}-{high})"
