"""One block in every order at three settings: the figures of the README's first table."""

from dataclasses import dataclass
from typing import Any

import torch

from scalednl.blocks import NonLocal2d
from scalednl.lab.bench.forms import AssociativeRows
from scalednl.lab.bench.goals import GOAL_HEAD, Goal
from scalednl.lab.bench.measure import timings, training_step
from scalednl.lab.bench.options import BenchOptions, short_bytes
from scalednl.lab.bench.session import Session
from scalednl.lab.bench.shapes import checked_error, features
from scalednl.lab.bench.timing import Timing
from scalednl.lab.console import print_table
from scalednl.lab.counting import bytes_kept

METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "auto, lean": {"memory": "lean"},
    "associative": {"order": "associative"},
    "associative, rows": {"order": "associative"},
    "softmax fused": {"attention": "softmax", "order": "fused"},
    "softmax plain": {"attention": "softmax", "order": "quadratic"},
}
HEAD = ["setting, 4 heads", "method", "step, ms", "/ associative", "kept", "/ associative", "error"]


@dataclass(frozen=True)
class Setting:
    """A map, and what the planned order is to reach there over the associative one and softmax."""

    batch: int
    channels: int
    side: int
    time: float
    kept: float
    softmax: float

    def __str__(self) -> str:
        return f"B{self.batch} C{self.channels} {self.side}x{self.side}"


SETTINGS = (
    Setting(128, 128, 16, 0.80, 0.50, 0.30),
    Setting(32, 64, 32, 0.45, 0.35, 0.05),
    Setting(4, 128, 64, 0.45, 0.35, 0.02),
)


@dataclass(frozen=True)
class Cost:
    """What one method costs at one setting."""

    order: str
    time: Timing
    kept: int
    error: float


def run(options: BenchOptions) -> None:
    """Measure, print, and keep."""
    session = Session("orders", options)
    repeats = options.runs(usual=9)
    settings = SETTINGS[:2] if options.quick else SETTINGS
    rows, records, goals = [], [], []
    for setting in settings:
        with session.step(str(setting)):
            costs = _costs(setting, repeats, session.device)
        best = min((costs["associative"], costs["associative, rows"]), key=lambda c: c.time.median)
        for name, cost in costs.items():
            ratios = (cost.time.ratio(best.time), cost.kept / costs["associative"].kept)
            rows.append(_row(setting, name, cost, ratios))
            records.append(_record(setting, name, cost, ratios))
        goals += _goals(setting, costs, best)
    print(
        f"Forward and backward of one block with batch norm, channels_last; median (quartiles) of "
        f"{repeats};\ntimes over the associative order in its faster shape.\n"
    )
    print_table(HEAD, rows)
    print_table(GOAL_HEAD, [goal.row() for goal in goals])
    result = {
        "settings": {"repeats": repeats, "heads": 4},
        "rows": records,
        "goals": [goal.as_dict() for goal in goals],
    }
    session.finish(result, {})


def _costs(setting: Setting, repeats: int, device: str) -> dict[str, Cost]:
    x, grad = features(setting.batch, setting.channels, setting.side, device)
    blocks = {name: _block(name, setting.channels, device) for name in METHODS}
    errors = {
        name: checked_error(block, x, f"{name} at {setting}") for name, block in blocks.items()
    }
    kept = {name: bytes_kept(block, x) for name, block in blocks.items()}
    steps = {name: training_step(block, x, grad) for name, block in blocks.items()}
    times = timings(steps, repeats, warm_up=1, device=device)
    orders = {name: str(block.choice(x.shape)) for name, block in blocks.items()}
    return {name: Cost(orders[name], times[name], kept[name], errors[name]) for name in METHODS}


def _block(name: str, channels: int, device: str) -> NonLocal2d:
    torch.manual_seed(0)
    kind = AssociativeRows if name == "associative, rows" else NonLocal2d
    return kind(channels, init="he", norm_init=1.0, **METHODS[name]).to(device)


def _row(setting: Setting, name: str, cost: Cost, ratios: tuple[float, float]) -> list[str]:
    name = f"{name}: {cost.order}" if name.startswith("auto") else name
    time, kept = ratios
    return [
        *(str(setting), name, str(cost.time), f"{time:.3f}"),
        *(short_bytes(cost.kept), f"{kept:.3f}", f"{cost.error:.0e}"),
    ]


def _record(setting: Setting, name: str, cost: Cost, ratios: tuple[float, float]) -> dict[str, Any]:
    return {
        "batch": setting.batch,
        "channels": setting.channels,
        "height": setting.side,
        "width": setting.side,
        "method": name,
        "order": cost.order,
        "time": cost.time.as_dict(),
        "time_over_associative": round(ratios[0], 4),
        "bytes_kept": cost.kept,
        "bytes_kept_over_associative": round(ratios[1], 4),
        "error": cost.error,
    }


def _goals(setting: Setting, costs: dict[str, Cost], best: Cost) -> list[Goal]:
    auto = costs["auto"]
    kept = auto.kept / costs["associative"].kept
    softmax = auto.time.ratio(costs["softmax plain"].time)
    return [
        Goal(f"{setting}: time, auto / associative", auto.time.ratio(best.time), setting.time),
        Goal(f"{setting}: bytes kept, auto / associative", kept, setting.kept),
        Goal(f"{setting}: time, auto / softmax plain", softmax, setting.softmax),
    ]
