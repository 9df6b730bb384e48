"""The paper's claims about cost, decided from stored records of `scalednl bench`."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from scalednl.lab.paper.answers import FAILS, HOLDS, OPEN, Answer, answer
from scalednl.lab.paper.rules import FIXED_LEVEL, LINEAR
from scalednl.lab.report.verdicts import Verdict
from scalednl.lab.stats import Estimate, estimate

NOTHING = 0.05
"""Share of a step's time that counts as nothing"""
SOFTMAX, SCALED, OURS = "softmax plain", "associative", "auto"
TRAINING = "forward + backward"
HEADS = (1, 2, 4, 8)
Record = dict[str, Any]


def judge_costs(records: Sequence[Record]) -> list[Verdict]:
    """Every claim that the newest full records can decide; damaged records decide nothing."""
    found = []
    for record in records:
        if record.get("quick"):
            continue
        kind = str(record["schema"]).split(".")[2]
        for judge in {"table3": _TABLE3, "scaling": _SCALING}.get(kind, ()):
            try:
                found.append(judge(record))
            except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError):
                continue
    return found


def _runs(record: Record, method: str, heads: int) -> list[float]:
    """Milliseconds of a training step, round by round; rounds of one record pair."""
    return [_number(value) for value in _line(record, method, heads)["train_step"]["runs_ms"]]


def _kept(record: Record, method: str, heads: int) -> float:
    return _number(_line(record, method, heads)["bytes_kept"])


def _line(record: Record, method: str, heads: int) -> Record:
    return {(row["method"], row["heads"]): row for row in record["rows"]}[method, heads]


def _number(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{value} is not a positive number")
    return number


def _heads_time(record: Record) -> Verdict:
    one, four = (_runs(record, SCALED, heads) for heads in (1, 4))
    found = estimate([b / a - 1 for a, b in zip(one, four, strict=True)])
    name, says = "heads-cost-no-time", "Four heads cost a scaled block no more time than one"
    if found is None:
        return _verdict(name, says, record, OPEN, "the rounds have no spread to judge by")
    low, high = found.interval(1 - 2 * FIXED_LEVEL)
    told = HOLDS if high < NOTHING else FAILS if low > NOTHING else OPEN
    why = (
        f"{found.mean:+.1%} of a step's time, 90 % interval {low:+.1%} to {high:+.1%}, over "
        f"{len(one)} rounds; up to {NOTHING:.0%} counts as nothing"
    )
    return _verdict(name, says, record, told, why)


def _heads_memory(record: Record) -> Verdict:
    one, four = (_kept(record, SCALED, heads) for heads in (1, 4))
    says = "Four heads cost a scaled block no more memory than one"
    return _verdict(
        *("heads-cost-no-memory", says, record, HOLDS if four <= one else FAILS),
        f"{four / 1e6:,.1f} MB kept with 4 heads, {one / 1e6:,.1f} MB with 1 (counted exactly)",
    )


def _less_time(record: Record) -> Verdict:
    softmax, scaled = (_runs(record, method, 4) for method in (SOFTMAX, SCALED))
    found = estimate([a - b for a, b in zip(softmax, scaled, strict=True)])
    name, says = "scaled-costs-less-time", "Scaled blocks of 4 heads take less time than softmax's"
    if found is None:
        return _verdict(name, says, record, OPEN, "the rounds have no spread to judge by")
    told = answer("better", found, 1e-9, FIXED_LEVEL)
    why = f"{found.mean:,.0f} ms per step less, p = {told.p:.2g}, {len(scaled)} rounds"
    return _verdict(name, says, record, told.answer, why)


def _less_memory(record: Record) -> Verdict:
    pairs = [(h, _kept(record, SOFTMAX, h), _kept(record, SCALED, h)) for h in HEADS]
    told = HOLDS if all(scaled < softmax for _, softmax, scaled in pairs) else FAILS
    words = ", ".join(f"{b / 1e6:,.0f} against {a / 1e6:,.0f} MB ({h})" for h, a, b in pairs)
    return _verdict(
        "scaled-needs-less-memory",
        "Scaled blocks need less memory than softmax blocks, at every number of heads",
        record,
        told,
        f"kept for backward by the number of heads: {words}; counted exactly",
    )


def _softmax_memory(record: Record) -> Verdict:
    power = _growth([_kept(record, SOFTMAX, heads) for heads in HEADS])
    each = (_kept(record, SOFTMAX, 2) - _kept(record, SOFTMAX, 1)) / 1e6
    return _verdict(
        "softmax-memory-is-linear-in-heads",
        "The memory of softmax blocks is a linear function of the number of heads",
        record,
        HOLDS if LINEAR[0] < power < LINEAR[1] else FAILS,
        f"+{each:.2f} MB per head; grows as heads to the power {power:.3f} (counted exactly)",
    )


def _softmax_time(record: Record) -> Verdict:
    rounds = list(zip(*(_runs(record, SOFTMAX, heads) for heads in HEADS), strict=True))
    name = "softmax-time-is-linear-in-heads"
    says = "The training time of softmax blocks is a linear function of the number of heads"
    try:
        found = _jackknife(rounds, _growth_of_means)
    except ValueError:
        why = "the times do not rise with the heads throughout: too noisy to fit a power"
        return _verdict(name, says, record, OPEN, why)
    return _verdict(name, says, record, *_linear(found, "heads", len(rounds)))


def _pixels(method: str, name: str, says: str) -> Callable[[Record], Verdict]:
    def judge(record: Record) -> Verdict:
        rows = [
            row
            for row in record["by_side"]
            if (row["method"], row["mode"]) == (method, TRAINING) and "time" in row
        ]
        rows = sorted(rows, key=lambda row: row["height"])[-3:]
        sizes = [math.log(_number(row["height"]) * _number(row["width"])) for row in rows]
        runs = [[math.log(_number(v)) for v in row["time"]["runs_ms"]] for row in rows]
        slopes = [_slope(sizes, times) for times in zip(*runs, strict=True)]
        return _verdict(name, says, record, *_linear(estimate(slopes), "pixels", len(slopes)))

    return judge


def _linear(found: Estimate | None, of: str, rounds: int) -> tuple[Answer, str]:
    """An exponent against 1: its interval inside LINEAR, outside, or neither."""
    if found is None:
        return OPEN, "the rounds have no spread to judge by"
    low, high = found.interval(1 - FIXED_LEVEL)
    inside, outside = LINEAR[0] < low and high < LINEAR[1], low > LINEAR[1] or high < LINEAR[0]
    told = HOLDS if inside else FAILS if outside else OPEN
    why = (
        f"time grows as {of} to the power {found.mean:.2f} [{low:.2f}, {high:.2f}] over {rounds} "
        f"rounds; {LINEAR[0]} to {LINEAR[1]} counts as linear"
    )
    return told, why


def _growth(values: Sequence[float]) -> float:
    """k of a + b heads^k, from how the steps between doubled heads grow."""
    steps = [b - a for a, b in pairwise(values)]
    if min(steps) <= 0:
        raise ValueError("the values do not rise")
    return _slope([float(i) for i in range(len(steps))], [math.log2(step) for step in steps])


def _growth_of_means(rounds: Sequence[tuple[float, ...]]) -> float:
    return _growth([_mean(times) for times in zip(*rounds, strict=True)])


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    mx, my = _mean(x), _mean(y)
    top = math.fsum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return top / math.fsum((a - mx) ** 2 for a in x)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _jackknife(
    rounds: Sequence[tuple[float, ...]], fit: Callable[[Sequence[tuple[float, ...]]], float]
) -> Estimate | None:
    """A statistic of all rounds with its error, by leaving out one round at a time."""
    whole, n = fit(rounds), len(rounds)
    parts = [fit([*rounds[:i], *rounds[i + 1 :]]) for i in range(n)]
    return estimate([n * whole - (n - 1) * part for part in parts])


def _verdict(name: str, says: str, record: Record, told: Answer, why: str) -> Verdict:
    kind = str(record["schema"]).split(".")[2]
    batch = record["settings"]["batch"]
    where = f"PreResNet-56, batch {batch}" if kind == "table3" else f"one block, batch {batch}"
    return Verdict(
        *(name, says, "cost", f"cost-{kind}", "cost", "bench"),
        is_primary=False,
        is_ours=name.startswith("ours-"),
        answer=told,
        why=why,
        where=f"{where}, {record['origin'].get('machine') or 'unknown machine'}",
    )


_TABLE3 = (_heads_time, _heads_memory, _less_time, _less_memory, _softmax_memory, _softmax_time)
_SCALING = (
    _pixels(
        SCALED,
        "scaled-time-is-linear-in-pixels",
        "The time of a scaled block in the associative form is linear in the number of pixels",
    ),
    _pixels(
        OURS,
        "ours-is-linear-in-pixels",
        "The time of a scaled block with order='auto' is linear in the number of pixels",
    ),
)
