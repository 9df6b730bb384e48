"""What a measurement set out to show, and whether it did. Imports no torch."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Goal:
    """One number with the largest value that is good enough."""

    what: str
    value: float
    at_most: float

    @property
    def met(self) -> bool:
        """Whether the number is good enough."""
        return self.value <= self.at_most

    def row(self) -> list[str]:
        """A line of a table."""
        verdict = "met" if self.met else "NOT MET"
        return [self.what, f"{self.value:.3f}", f"<= {self.at_most:.2f}", verdict]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {**asdict(self), "value": round(self.value, 4), "met": self.met}


GOAL_HEAD = ["figure", "measured", "goal", ""]
