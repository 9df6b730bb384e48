"""The paper's claims about cost, decided from stored records of `scalednl bench`."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean, linear_regression

from scalednl.lab.paper.answers import FAILS, HOLDS, OPEN, Answer, answer
from scalednl.lab.paper.rules import FIXED_LEVEL, LINEAR
from scalednl.lab.records.bench import (
    FITTED_SIZES,
    BenchRecord,
    ScalingRecord,
    Table3Record,
    Table3Row,
)
from scalednl.lab.report.verdicts import Verdict
from scalednl.lab.stats import estimate

NOTHING = 0.05
"""Share of a step's time that counts as nothing"""
SOFTMAX, SCALED, OURS = "softmax plain", "associative", "auto"
HEADS = (1, 2, 4, 8)
Rows = dict[tuple[str, int], Table3Row]
Found = tuple[Answer, str]
"""An answer, and why"""
NO_SPREAD: Found = (OPEN, "the rounds have no spread to judge by")


def judge_costs(records: Sequence[BenchRecord]) -> list[Verdict]:
    """Every claim that full records decide; a record without the rows of a claim does not."""
    found = []
    for record in records:
        if record.quick:
            continue
        if isinstance(record, Table3Record):
            rows = {(row.method, row.heads): row for row in record.rows}
            where = f"PreResNet-56, batch {record.settings.batch}"
            for name, (says, needs, judge) in _TABLE3.items():
                if _measured_alike([rows.get(row) for row in needs]):
                    found.append(_verdict(name, says, record, where, judge(rows)))
        if isinstance(record, ScalingRecord):
            where = f"one block, batch {record.settings.batch}"
            for name, (says, method) in _SCALING.items():
                answered = _pixels(record, method)
                if answered is not None:
                    found.append(_verdict(name, says, record, where, answered))
    return found


def _measured_alike(rows: Sequence[Table3Row | None]) -> bool:
    """Whether all rows are there, with the same number of rounds."""
    rounds = {0 if row is None else len(row.train_step.runs_ms) for row in rows}
    return len(rounds) == 1 and 0 not in rounds


def _rounds(rows: Rows, *wanted: tuple[str, int]) -> list[tuple[float, ...]]:
    """Milliseconds of a training step of several networks, round by round."""
    return list(zip(*(rows[one].train_step.runs_ms for one in wanted), strict=True))


def _megabytes(rows: Rows, method: str) -> list[float]:
    return [rows[method, heads].bytes_kept / 1e6 for heads in HEADS]


def _heads_time(rows: Rows) -> Found:
    rounds = _rounds(rows, (SCALED, 1), (SCALED, 4))
    found = estimate([four / one - 1 for one, four in rounds])
    if found is None:
        return NO_SPREAD
    low, high = found.interval(1 - 2 * FIXED_LEVEL)
    told = HOLDS if high < NOTHING else FAILS if low > NOTHING else OPEN
    return told, (
        f"{found.mean:+.1%} of a step's time, 90 % interval {low:+.1%} to {high:+.1%}, over "
        f"{len(rounds)} rounds; up to {NOTHING:.0%} counts as nothing"
    )


def _heads_memory(rows: Rows) -> Found:
    one, four = (rows[SCALED, heads].bytes_kept for heads in (1, 4))
    return HOLDS if four <= one else FAILS, (
        f"{four / 1e6:,.1f} MB kept with 4 heads, {one / 1e6:,.1f} MB with 1 (counted exactly)"
    )


def _less_time(rows: Rows) -> Found:
    rounds = _rounds(rows, (SOFTMAX, 4), (SCALED, 4))
    found = estimate([softmax - scaled for softmax, scaled in rounds])
    if found is None:
        return NO_SPREAD
    told = answer("better", found, 1e-9, FIXED_LEVEL)
    why = f"{found.mean:,.0f} ms per step less, p = {told.p:.2g}, {len(rounds)} rounds"
    return told.answer, why


def _less_memory(rows: Rows) -> Found:
    pairs = list(zip(HEADS, _megabytes(rows, SOFTMAX), _megabytes(rows, SCALED), strict=True))
    words = ", ".join(f"{b:,.0f} against {a:,.0f} MB ({heads})" for heads, a, b in pairs)
    holds = all(scaled < softmax for _, softmax, scaled in pairs)
    return HOLDS if holds else FAILS, (
        f"kept for backward by the number of heads: {words}; counted exactly"
    )


def _softmax_memory(rows: Rows) -> Found:
    kept = _megabytes(rows, SOFTMAX)
    power = _growth(kept)
    if power is None:
        return FAILS, "the bytes kept do not rise with the heads throughout (counted exactly)"
    return HOLDS if LINEAR[0] < power < LINEAR[1] else FAILS, (
        f"+{kept[1] - kept[0]:.2f} MB per head; grows as heads to the power {power:.3f} "
        "(counted exactly)"
    )


def _softmax_time(rows: Rows) -> Found:
    rounds = _rounds(rows, *((SOFTMAX, heads) for heads in HEADS))
    powers = [_growth_of_means(rounds)]
    powers += [_growth_of_means([*rounds[:i], *rounds[i + 1 :]]) for i in range(len(rounds))]
    fitted = [power for power in powers if power is not None]
    if len(fitted) < len(powers):
        return OPEN, "the times do not rise with the heads throughout: too noisy to fit a power"
    # The jackknife: all rounds, and each round left out in turn.
    n = len(rounds)
    return _linear([n * fitted[0] - (n - 1) * part for part in fitted[1:]], "heads")


def _pixels(record: ScalingRecord, method: str) -> Found | None:
    """The exponent of time over pixels, round by round; None where too few sizes were timed."""
    points = record.timed(method, "forward + backward")[-FITTED_SIZES:]
    if len(points) < 2 or len({len(time.runs_ms) for _, time in points}) > 1:
        return None
    sizes = [math.log(pixels) for pixels, _ in points]
    rounds = zip(*(time.runs_ms for _, time in points), strict=True)
    return _linear([_slope(sizes, [math.log(run) for run in runs]) for runs in rounds], "pixels")


def _linear(powers: Sequence[float], of: str) -> Found:
    """Exponents against 1: their interval inside LINEAR, outside, or neither."""
    found = estimate(powers)
    if found is None:
        return NO_SPREAD
    low, high = found.interval(1 - FIXED_LEVEL)
    inside, outside = LINEAR[0] < low and high < LINEAR[1], low > LINEAR[1] or high < LINEAR[0]
    return HOLDS if inside else FAILS if outside else OPEN, (
        f"time grows as {of} to the power {found.mean:.2f} [{low:.2f}, {high:.2f}] over "
        f"{len(powers)} rounds; {LINEAR[0]} to {LINEAR[1]} counts as linear"
    )


def _growth(values: Sequence[float]) -> float | None:
    """k of a + b heads^k, from how the steps between doubled heads grow; None if any falls."""
    steps = [b - a for a, b in pairwise(values)]
    if min(steps) <= 0:
        return None
    return _slope([float(i) for i in range(len(steps))], [math.log2(step) for step in steps])


def _growth_of_means(rounds: Sequence[tuple[float, ...]]) -> float | None:
    return _growth([fmean(times) for times in zip(*rounds, strict=True)]) if rounds else None


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    return linear_regression(x, y).slope


def _verdict(name: str, says: str, record: BenchRecord, where: str, found: Found) -> Verdict:
    told, why = found
    return Verdict(
        *(name, says, "cost", f"cost-{record.KIND}", "cost", "bench"),
        is_primary=False,
        is_ours=name.startswith("ours-"),
        answer=told,
        why=why,
        where=f"{where}, {record.origin.machine or 'unknown machine'}",
    )


def _needs(*methods: str, heads: Sequence[int] = HEADS) -> list[tuple[str, int]]:
    return [(method, count) for method in methods for count in heads]


_TABLE3: dict[str, tuple[str, list[tuple[str, int]], Callable[[Rows], Found]]] = {
    "heads-cost-no-time": (
        "Four heads cost a scaled block no more time than one",
        _needs(SCALED, heads=(1, 4)),
        _heads_time,
    ),
    "heads-cost-no-memory": (
        "Four heads cost a scaled block no more memory than one",
        _needs(SCALED, heads=(1, 4)),
        _heads_memory,
    ),
    "scaled-costs-less-time": (
        "Scaled blocks of 4 heads take less time than softmax's",
        _needs(SOFTMAX, SCALED, heads=(4,)),
        _less_time,
    ),
    "scaled-needs-less-memory": (
        "Scaled blocks need less memory than softmax blocks, at every number of heads",
        _needs(SOFTMAX, SCALED),
        _less_memory,
    ),
    "softmax-memory-is-linear-in-heads": (
        "The memory of softmax blocks is a linear function of the number of heads",
        _needs(SOFTMAX),
        _softmax_memory,
    ),
    "softmax-time-is-linear-in-heads": (
        "The training time of softmax blocks is a linear function of the number of heads",
        _needs(SOFTMAX),
        _softmax_time,
    ),
}
_SCALING = {
    "scaled-time-is-linear-in-pixels": (
        "The time of a scaled block in the associative form is linear in the number of pixels",
        SCALED,
    ),
    "ours-is-linear-in-pixels": (
        "The time of a scaled block with order='auto' is linear in the number of pixels",
        OURS,
    ),
}
