"""How the measurements of Table 3 are shown: lines, goals, a chart, the paper's ratios beside."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scalednl.lab.bench.goals import Goal
from scalednl.lab.bench.networks import Variant
from scalednl.lab.bench.options import short_bytes
from scalednl.lab.bench.timing import Timing
from scalednl.lab.charts import Dot, Row, dot_chart
from scalednl.lab.paper import tables

HEAD = ["network", "heads", "step, ms", "x", "paper x"]
HEAD += ["kept", "x", "peak", "x", "paper x", "error"]
COLOURS = {"softmax plain": "red", "softmax fused": "purple", "associative": "blue"}


@dataclass(frozen=True)
class Line:
    """What was measured of one variant."""

    variant: Variant
    time: Timing
    kept: int
    peak: int
    error: float | None
    """None where there is no block"""

    def printed(self, column: str) -> float | None:
        """The paper's ratio; it has plain softmax and the associative form, to 4 heads."""
        attention = {"softmax plain": "softmax", "associative": "scaled"}
        named = attention.get(self.variant.method.partition(",")[0])
        return None if named is None else tables.table3_ratio(named, column, self.variant.heads)


def row_of(line: Line, plain: Line) -> list[str]:
    """A line of the table."""
    return [
        line.variant.method,
        str(line.variant.heads or ""),
        str(line.time),
        f"x{line.time.ratio(plain.time):.2f}",
        _ratio(line.printed("train_step_ms")),
        short_bytes(line.kept),
        f"x{line.kept / plain.kept:.3f}",
        short_bytes(line.peak),
        f"x{line.peak / plain.peak:.2f}",
        _ratio(line.printed("memory_mb")),
        "" if line.error is None else f"{line.error:.0e}",
    ]


def record_of(line: Line, plain: Line) -> dict[str, Any]:
    """The same with every digit, for a file."""
    return {
        "method": line.variant.method,
        "heads": line.variant.heads,
        "train_step": line.time.as_dict(),
        "train_step_ratio": round(line.time.ratio(plain.time), 4),
        "paper_train_step_ratio": line.printed("train_step_ms"),
        "bytes_kept": line.kept,
        "bytes_kept_ratio": round(line.kept / plain.kept, 4),
        "peak_memory_bytes": line.peak,
        "peak_memory_ratio": round(line.peak / plain.peak, 4),
        "paper_memory_ratio": line.printed("memory_mb"),
        "error": line.error,
    }


def goals_of(lines: Sequence[Line], inference: dict[str, Timing]) -> list[Goal]:
    """The figures that the block set out to reach; times over the same round's plain network."""
    by_name = {line.variant.name: line for line in lines}
    plain = lines[0]

    def extra(method: str) -> float:
        return by_name[f"{method}, 4 heads"].time.extra(plain.time).median

    def kept(method: str) -> float:
        found = (by_name[f"{name}, 4 heads"].kept - plain.kept for name in (method, "associative"))
        return next(found) / next(found)

    best = min(extra("associative"), extra("associative, rows"))
    heads = by_name["auto, 8 heads"].time.ratio(by_name["auto, 1 head"].time)
    block, floor = inference["auto"], inference["floor"]
    large = "inference B1 C64 256x256, auto /"
    return [
        Goal("extra time, auto / associative in its best shape", extra("auto") / best, 0.80),
        Goal("extra time, auto / softmax plain", extra("auto") / extra("softmax plain"), 0.25),
        Goal("extra bytes kept, auto / associative", kept("auto"), 0.50),
        Goal("extra bytes kept, lean / associative", kept("auto, lean"), 0.30),
        Goal("step time, auto, 8 heads / 1 head", heads, 1.05),
        Goal(f"{large} associative", block.ratio(inference["associative"]), 0.40),
        Goal(f"{large} two bare products", block.ratio(floor), 1.50),
    ]


def chart(lines: Sequence[Line], where: str) -> str:
    """Ratios to the network without blocks; the paper's are hollow."""
    plain = lines[0]
    rows = []
    for line in lines[1:]:
        method = line.variant.method
        name = f"{method}, {line.variant.heads} head{'s' if line.variant.heads > 1 else ''}"
        rows.append(Row(name, COLOURS.get(method.partition(",")[0], "green"), _dots(line, plain)))
    rows.insert(0, Row("no blocks", "grey", _dots(plain, plain)))
    return dot_chart(
        "PreResNet-56 with 3 non-local blocks, as multiples of the network without",
        ["time of a training step", "bytes kept for backward", "peak memory"],
        rows,
        start=1,
        foot=f"Filled: measured, with quartiles ({where}). Hollow: the paper, where it has one.",
    )


def _dots(line: Line, plain: Line) -> list[list[Dot]]:
    low, high = (value / plain.time.median for value in line.time.quartiles)
    measured = [
        Dot(line.time.ratio(plain.time), f"x{line.time.ratio(plain.time):.2f}", low, high),
        Dot(line.kept / plain.kept, f"x{line.kept / plain.kept:.2f}"),
        Dot(line.peak / plain.peak, f"x{line.peak / plain.peak:.2f}"),
    ]
    printed = [line.printed("train_step_ms"), None, line.printed("memory_mb")]
    return [
        [dot] if other is None else [dot, Dot(other, f"paper x{other:.2f}", hollow=True)]
        for dot, other in zip(measured, printed, strict=True)
    ]


def _ratio(value: float | None) -> str:
    return "" if value is None else f"x{value:.2f}"
