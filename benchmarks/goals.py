"""The figures that this project sets itself, and whether records reach them. Imports no torch.

python -m benchmarks.goals benchmarks/results

Exit code 1 if a goal is missed. Times of a busy machine or of `--quick` get no verdict.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from benchmarks.records import (
    ALL_KINDS,
    DeploymentRecord,
    ExportRecord,
    HalfPrecisionRecord,
    HalfSetting,
    InferenceRecord,
    LoopRecord,
    PlannerRecord,
)
from scalednl.lab.console import print_table
from scalednl.lab.records.bench import (
    BenchRecord,
    OrdersRecord,
    Table3Record,
    Table3Row,
    find_bench_records,
)

HEAD = ["figure", "measured", "goal", ""]
ORDERS = {
    "B128 C128 16x16": (0.80, 0.50, 0.40),
    "B32 C64 32x32": (0.45, 0.35, 0.05),
    "B4 C128 64x64": (0.45, 0.35, 0.03),
}
"""Goals of `auto`: time over associative, bytes kept over associative, time over plain softmax.
The last was chosen from the first record with freed memory kept"""
SHARES = {"B128 C128 16x16": 0.65, "B32 C64 32x32": 0.45, "B4 C128 64x64": 0.65}
"""For `auto`, the least share of its floor, forward and backward"""
KEPT, FASTER = "cifar10-preresnet56-scaled", 1.10
"""The recipe that must train so much faster when freed memory is kept"""
NEAR = 1.1
"""A pick of the planner within 10 % of the fastest is a good one"""


@dataclass(frozen=True)
class Goal:
    """One number with the largest value that is good enough."""

    what: str
    value: float
    at_most: float
    counted: bool = False
    """Counted, not timed: the same on every machine, however busy"""

    def verdict(self, record: BenchRecord) -> str:
        """Whether the number of this record is good enough, or why that cannot be said."""
        if not self.counted:
            if record.is_disturbed:
                return "no verdict: busy machine"
            if record.quick:
                return "no verdict: --quick"
        return "NOT MET" if self.is_missed else "met"

    @property
    def is_missed(self) -> bool:
        """Whether the number is too large."""
        return self.value > self.at_most


def goals_of(record: BenchRecord) -> list[Goal]:
    """The goals of a record; none for kinds that have none."""
    find = _GOALS.get(record.KIND)
    return [] if find is None else find(record)


def print_goals(record: BenchRecord) -> bool:
    """Print a record's goals with their verdicts; whether none is missed."""
    goals = goals_of(record)
    verdicts = [goal.verdict(record) for goal in goals]
    if goals:
        figures = [[g.what, f"{g.value:.3f}", f"<= {g.at_most:.2f}"] for g in goals]
        print_table(HEAD, [[*f, v] for f, v in zip(figures, verdicts, strict=True)])
    return "NOT MET" not in verdicts


def _table3(record: Table3Record) -> list[Goal]:
    """Goals for blocks of 4 heads; times are those beyond the network without blocks."""
    plain = record.rows[0]
    rows = {(row.method, row.heads): row for row in record.rows}

    def extra(method: str) -> float:
        return rows[method, 4].train_step.extra(plain.train_step).median_ms

    def kept(row: Table3Row) -> float:
        return (row.bytes_kept - plain.bytes_kept) / (
            rows["associative", 4].bytes_kept - plain.bytes_kept
        )

    best = min(extra("associative"), extra("associative, rows"))
    heads = rows["auto", 8].train_step.ratio(rows["auto", 1].train_step)
    softmax = extra("auto") / extra("softmax plain")
    lean = kept(rows["auto, lean", 4])
    return [
        Goal("extra time, auto / associative in its best shape", extra("auto") / best, 0.80),
        Goal("extra time, auto / softmax plain", softmax, 0.40),
        Goal("extra bytes kept, auto / associative", kept(rows["auto", 4]), 0.50, counted=True),
        Goal("extra bytes kept, lean / associative", lean, 0.30, counted=True),
        Goal("step time, auto, 8 heads / 1 head", heads, 1.05),
    ]


def _orders(record: OrdersRecord) -> list[Goal]:
    rows = {(row.place, row.method): row for row in record.rows}
    found = []
    for place, (time, kept, softmax) in ORDERS.items():
        if (place, "auto") not in rows:
            continue
        auto, plain = rows[place, "auto"], rows[place, "softmax plain"]
        over_softmax = auto.time.ratio(plain.time)
        found += [
            Goal(f"{place}: time, auto / associative", auto.time_over_associative, time),
            Goal(
                f"{place}: bytes kept, auto / associative",
                *(auto.bytes_kept_over_associative, kept),
                counted=True,
            ),
            Goal(f"{place}: time, auto / softmax plain", over_softmax, softmax),
        ]
        if auto.floor is not None:
            found.append(
                Goal(f"{place}: time, auto / its floor", 1 / auto.floor.share, 1 / SHARES[place])
            )
    return found


def _inference(record: InferenceRecord) -> list[Goal]:
    large = "inference B1 C64 256x256, auto /"
    return [
        Goal(f"{large} associative", record.auto.ratio(record.associative), 0.40),
        Goal(f"{large} two bare products", record.auto.ratio(record.floor), 1.50),
    ]


def _planner(record: PlannerRecord) -> list[Goal]:
    missed = sum(row.regret > NEAR for row in record.rows) / len(record.rows)
    return [Goal(f"share of {len(record.rows)} picks over 10 % from the fastest", missed, 0.10)]


def _loop(record: LoopRecord) -> list[Goal]:
    found = [
        Goal(f"{row.recipe}: bare / train speed", 1 / row.speed_over_bare, 1 / 0.95)
        for row in record.rows
    ]
    for row in record.rows:
        if row.recipe == KEPT and row.speed_over_default is not None:
            what = f"{row.recipe}: time, freed memory kept / returned"
            found.append(Goal(what, 1 / row.speed_over_default, 1 / FASTER))
    return found


def _export(record: ExportRecord) -> list[Goal]:
    return [Goal("onnxruntime, scaled / softmax", record.scaled.ratio(record.softmax), 0.20)]


def _deployment(record: DeploymentRecord) -> list[Goal]:
    """No exported program is slower than eager."""
    return [
        Goal(f"{row.network}, {way} / eager", time.ratio(row.times["eager"]), 1.0)
        for row in record.rows
        for way, time in row.times.items()
        if way != "eager"
    ]


def _half_precision(record: HalfPrecisionRecord) -> list[Goal]:
    """How far from the largest input tried the default order ends in float16 under autocast."""
    features = record.rows[0].setting.features
    rows = {row.setting: row for row in record.rows if row.method == "scaled, auto"}
    training, evaluation = (
        rows[HalfSetting(features, "float16", "autocast", mode)] for mode in (True, False)
    )
    reached = {"training, finite": training.finite, "evaluation, right": evaluation.right}
    return [
        Goal(
            f"float16 {what}: largest x tried / auto's",
            *(record.settings.largest / (deviation or 0.5), 1.0),
            counted=True,
        )
        for what, deviation in reached.items()
    ]


_GOALS: dict[str, Callable[[Any], list[Goal]]] = {
    Table3Record.KIND: _table3,
    OrdersRecord.KIND: _orders,
    InferenceRecord.KIND: _inference,
    PlannerRecord.KIND: _planner,
    LoopRecord.KIND: _loop,
    ExportRecord.KIND: _export,
    DeploymentRecord.KIND: _deployment,
    HalfPrecisionRecord.KIND: _half_precision,
}


def main(folder: tyro.conf.Positional[Path]) -> int:
    """Judge the newest record of each kind in a folder.

    Args:
        folder: Where records were written by `--out`.
    """
    records, damaged = find_bench_records([folder], ALL_KINDS)
    met = not damaged
    for problem in damaged:
        print(problem)
    if not records:
        print(f"{folder} has no records of benchmarks")
        return 1
    for record in (record for record in records if goals_of(record)):
        print(f"{record.KIND}, {record.origin.date[:10]}, {record.where}\n")
        met = print_goals(record) and met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
