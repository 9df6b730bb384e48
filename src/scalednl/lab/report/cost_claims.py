"""The paper's claims about cost, decided from stored records of `scalednl bench`."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
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
Rows = Sequence[Table3Row]
Found = tuple[Answer, str]
"""An answer, and why"""
Judge = Callable[[Rows], Found]
NO_SPREAD: Found = (OPEN, "the rounds have no spread to judge by")


_TABLE3: dict[tuple[str, str], Callable[[Table3Record], Found | None]] = {}
"""Names of claims and what they say, and how a record decides them"""


def _claim(
    name: str,
    says: str,
    methods: Sequence[str],
    heads: Sequence[int] = HEADS,
    *,
    timed: bool = False,
) -> Callable[[Judge], Judge]:
    """Register the function that decides a claim about Table 3 from the rows it needs.

    Claims that rest on times are open where the machine was busy.

    A record without one of these rows, or with other rounds in some of them, does not decide it.
    """

    def register(judge: Judge) -> Judge:
        def decide(record: Table3Record) -> Found | None:
            rows = {(row.method, row.heads): row for row in record.rows}
            needed = [rows.get(key) for key in product(methods, heads)]
            there = [row for row in needed if row is not None]
            rounds = {len(row.train_step.runs_ms) for row in there}
            if len(there) < len(needed) or len(rounds) > 1:
                return None
            return _busy(record) if timed and record.is_disturbed else judge(there)

        _TABLE3[name, says] = decide
        return judge

    return register


def _busy(record: BenchRecord) -> Found:
    """What times of a busy machine decide."""
    return OPEN, (
        f"the machine was busy: {record.disturbance}; measure again when nothing else runs"
    )


def judge_costs(records: Sequence[BenchRecord]) -> list[Verdict]:
    """Every claim that full records decide; a record without the rows of a claim does not."""
    return [verdict for record in records if not record.quick for verdict in _verdicts(record)]


def _verdicts(record: BenchRecord) -> Iterator[Verdict]:
    found: dict[tuple[str, str], Found | None] = {}
    where = ""
    if isinstance(record, Table3Record):
        where = f"PreResNet-56, batch {record.settings.batch}"
        found = {key: decide(record) for key, decide in _TABLE3.items()}
    elif isinstance(record, ScalingRecord):
        where = f"one block, batch {record.settings.batch}"
        found = {key: _pixels(record, method) for key, method in _SCALING.items()}
    for (name, says), answered in found.items():
        if answered is not None:
            yield Verdict(
                *(name, says, "cost", f"cost-{record.KIND}", "cost", "bench"),
                is_primary=False,
                is_ours=name.startswith("ours-"),
                answer=answered[0],
                why=answered[1],
                where=f"{where}, {record.origin.machine or 'unknown machine'}",
            )


def _rounds(rows: Rows) -> list[tuple[float, ...]]:
    """Milliseconds of a training step of several networks, round by round."""
    return list(zip(*(row.train_step.runs_ms for row in rows), strict=True))


def _megabytes(rows: Rows) -> list[float]:
    return [row.bytes_kept / 1e6 for row in rows]


@_claim(
    "heads-cost-no-time",
    "Four heads cost an associative scaled block no more time than one",
    (SCALED,),
    (1, 4),
    timed=True,
)
def _heads_time(rows: Rows) -> Found:
    rounds = _rounds(rows)
    found = estimate([four / one - 1 for one, four in rounds])
    if found is None:
        return NO_SPREAD
    low, high = found.interval(1 - 2 * FIXED_LEVEL)
    judged = HOLDS if high < NOTHING else FAILS if low > NOTHING else OPEN
    return judged, (
        f"{found.mean:+.1%} of a step's time, 90 % interval {low:+.1%} to {high:+.1%}, over "
        f"{len(rounds)} rounds; up to {NOTHING:.0%} counts as nothing"
    )


@_claim(
    "heads-cost-no-memory",
    "Four heads cost an associative scaled block no more memory than one",
    (SCALED,),
    (1, 4),
)
def _heads_memory(rows: Rows) -> Found:
    one, four = _megabytes(rows)
    return HOLDS if four <= one else FAILS, (
        f"{four:,.1f} MB kept with 4 heads, {one:,.1f} MB with 1 (counted exactly)"
    )


@_claim(
    "scaled-costs-less-time",
    "Associative scaled blocks of 4 heads take less time than plain softmax blocks",
    (SOFTMAX, SCALED),
    (4,),
    timed=True,
)
def _less_time(rows: Rows) -> Found:
    rounds = _rounds(rows)
    found = estimate([softmax - scaled for softmax, scaled in rounds])
    if found is None:
        return NO_SPREAD
    judged = answer("better", found, 1e-9, FIXED_LEVEL)
    why = f"{found.mean:,.0f} ms per step less, p = {judged.p:.2g}, {len(rounds)} rounds"
    return judged.answer, why


@_claim(
    "scaled-needs-less-memory",
    "Associative scaled blocks need less memory than plain softmax blocks, for 1 to 8 heads",
    (SOFTMAX, SCALED),
)
def _less_memory(rows: Rows) -> Found:
    kept, half = _megabytes(rows), len(HEADS)
    pairs = list(zip(HEADS, kept[:half], kept[half:], strict=True))
    words = ", ".join(f"{b:,.0f} against {a:,.0f} MB ({heads})" for heads, a, b in pairs)
    holds = all(scaled < softmax for _, softmax, scaled in pairs)
    return HOLDS if holds else FAILS, (
        f"kept for backward by the number of heads: {words}; counted exactly"
    )


@_claim(
    "softmax-memory-is-linear-in-heads",
    "The memory of plain softmax blocks is a linear function of the number of heads",
    (SOFTMAX,),
)
def _softmax_memory(rows: Rows) -> Found:
    kept = _megabytes(rows)
    power = _growth(kept)
    if power is None:
        return FAILS, "the bytes kept do not rise with the heads throughout (counted exactly)"
    return HOLDS if LINEAR[0] < power < LINEAR[1] else FAILS, (
        f"+{kept[1] - kept[0]:.2f} MB per head; grows as heads to the power {power:.3f} "
        "(counted exactly)"
    )


@_claim(
    "softmax-time-is-linear-in-heads",
    "The training time of plain softmax blocks is a linear function of the number of heads",
    (SOFTMAX,),
    timed=True,
)
def _softmax_time(rows: Rows) -> Found:
    rounds = _rounds(rows)
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
    if record.is_disturbed:
        return _busy(record)
    sizes = [math.log(pixels) for pixels, _ in points]
    rounds = zip(*(time.runs_ms for _, time in points), strict=True)
    slopes = [linear_regression(sizes, [math.log(run) for run in runs]).slope for runs in rounds]
    return _linear(slopes, "pixels")


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
    return linear_regression(range(len(steps)), [math.log2(step) for step in steps]).slope


def _growth_of_means(rounds: Sequence[tuple[float, ...]]) -> float | None:
    return _growth([fmean(times) for times in zip(*rounds, strict=True)]) if rounds else None


_SCALING = {
    (
        "scaled-time-is-linear-in-pixels",
        "The time of a scaled block in the associative form is linear in the number of pixels",
    ): SCALED,
    (
        "ours-is-linear-in-pixels",
        "The time of a scaled block with order='auto' is linear in the number of pixels",
    ): OURS,
}
