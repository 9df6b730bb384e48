"""What the planner picks, what would have been fastest, and what the difference costs."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from scalednl.blocks import NonLocal2d
from scalednl.lab.bench.goals import GOAL_HEAD, Goal
from scalednl.lab.bench.measure import Step, inference_step, timings, training_step
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.session import Session
from scalednl.lab.bench.shapes import checked_error, features
from scalednl.lab.bench.timing import Timing
from scalednl.lab.charts import Dot, Row, dot_chart
from scalednl.lab.console import print_table
from scalednl.ops.planner import Choice

SIDES = (7, 8, 14, 16, 28, 32, 56)
NEAR = 1.1
"""A pick within 10 % of the fastest is a good one"""
HEAD = ["shape", "mode", "picked", "fastest", "picked, ms", "fastest, ms", "regret", "error"]


@dataclass(frozen=True)
class Shape:
    """A block and the map it is put on."""

    channels: int
    side: int
    embed: int
    heads: int
    training: bool

    @property
    def batch(self) -> int:
        """As many images as make a step long enough to time."""
        pixels = self.side * self.side
        return max(1, min(64, 2**20 // (self.channels * pixels), 2**25 // self.channels**3))

    def __str__(self) -> str:
        return f"B{self.batch} C{self.channels} E{self.embed} h{self.heads} {self.side}x{self.side}"


@dataclass(frozen=True)
class Outcome:
    """The times of every order at one shape, and the planner's pick."""

    shape: Shape
    picked: str
    times: dict[str, Timing]
    error: float

    @property
    def fastest(self) -> str:
        """The order with the smallest median."""
        return min(self.times, key=lambda name: self.times[name].median)

    @property
    def regret(self) -> float:
        """The pick's time over the fastest order's: 1 is a perfect pick."""
        return self.times[self.picked].ratio(self.times[self.fastest])

    def row(self) -> list[str]:
        """A line of the table."""
        return [
            str(self.shape),
            "training" if self.shape.training else "evaluation",
            self.picked,
            self.fastest,
            str(self.times[self.picked]),
            str(self.times[self.fastest]),
            f"x{self.regret:.2f}" + ("" if self.regret <= NEAR else " <--"),
            f"{self.error:.0e}",
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {
            "shape": vars(self.shape) | {"batch": self.shape.batch},
            "picked": self.picked,
            "fastest": self.fastest,
            "regret": round(self.regret, 4),
            "error": self.error,
            "times": {name: timing.as_dict() for name, timing in self.times.items()},
        }


def run(options: BenchOptions) -> None:
    """Measure, print, and keep."""
    session = Session("planner", options)
    repeats = options.runs(usual=11, quick=7)
    outcomes = []
    for shape in _shapes(options.quick):
        with session.step(f"{shape}, {'training' if shape.training else 'evaluation'}"):
            outcomes.append(_outcome(shape, repeats, session.device))
    print(f"One block with batch norm, channels_last; median (quartiles) of {repeats}.\n")
    print_table(HEAD, [outcome.row() for outcome in outcomes])
    missed = sum(outcome.regret > NEAR for outcome in outcomes)
    goal = Goal(
        f"share of {len(outcomes)} picks over 10 % from the fastest", missed / len(outcomes), 0.10
    )
    print_table(GOAL_HEAD, [goal.row()])
    picked = Counter(outcome.picked for outcome in outcomes)
    print("Picked: " + ", ".join(f"{name} {n} times" for name, n in picked.most_common()) + "\n")
    result = {
        "settings": {"repeats": repeats},
        "rows": [outcome.as_dict() for outcome in outcomes],
        "goals": [goal.as_dict()],
    }
    where = f"{session.origin.machine}, {session.origin.threads} threads, median of {repeats}"
    session.finish(result, {"planner": _chart(outcomes, where)})


def _shapes(quick: bool) -> list[Shape]:
    if quick:
        grid = [(c, side, c, 4) for c in (32, 128) for side in (8, 16, 32)] + [(256, 14, 256, 4)]
    else:
        grid = [(c, side, c, 4) for c in (32, 64, 128, 256) for side in SIDES]
        grid += [(512, side, 512, 8) for side in (7, 14, 28)]
        grid += [(c, side, c // k, 4) for c, side in ((64, 32), (128, 16)) for k in (2, 4, 8)]
        grid += [(128, 16, 128, heads) for heads in (1, 8)]
    return [Shape(*sizes, training) for training in (True, False) for sizes in grid]


def _outcome(shape: Shape, repeats: int, device: str) -> Outcome:
    x, grad = features(shape.batch, shape.channels, shape.side, device)
    choices = [Choice("associative", False), Choice("gram", False)]
    choices += [Choice("gram", True)] if shape.training else []
    choices += [Choice("quadratic", False)] if shape.side <= 16 else []
    steps: dict[str, Step] = {}
    error = 0.0
    for choice in choices:
        block = _block(shape, device)
        block.order = choice
        error = max(error, checked_error(block, x, f"{choice} at {shape}"))
        step = training_step(block, x, grad) if shape.training else inference_step(block, x)
        steps[str(choice)] = step
    picked = _block(shape, device).plan(x.shape).choice
    return Outcome(shape, str(picked), timings(steps, repeats, device=device), error)


def _block(shape: Shape, device: str) -> NonLocal2d:
    torch.manual_seed(0)
    block = NonLocal2d(shape.channels, heads=shape.heads, embed_channels=shape.embed, norm_init=1.0)
    return block.to(device).train(shape.training)


def _chart(outcomes: list[Outcome], where: str) -> str:
    """Every shape's regret, a row a number of channels; the worst is written beside the dots."""
    rows = []
    for channels in sorted({outcome.shape.channels for outcome in outcomes}):
        columns = []
        for training in (True, False):
            regrets = sorted(
                (
                    outcome.regret
                    for outcome in outcomes
                    if (outcome.shape.channels, outcome.shape.training) == (channels, training)
                ),
                reverse=True,
            )
            columns.append([Dot(regret, f"x{regret:.2f}") for regret in regrets])
        name = f"{channels} channels, {len(columns[0])} shapes"
        rows.append(Row(name, "green", columns))
    return dot_chart(
        "The planner's pick: its time over the fastest order's",
        ["training", "evaluation"],
        rows,
        start=1,
        foot=f"1 is a perfect pick; the worst is written out. {where}.",
    )
