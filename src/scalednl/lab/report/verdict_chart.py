"""All judged differences of a scale in one figure, with their intervals and margins."""

from collections.abc import Sequence

from scalednl.lab.charts import Interval, interval_chart
from scalednl.lab.console import counted
from scalednl.lab.paper.answers import FAILS, HOLDS, OPEN, SAME
from scalednl.lab.report.curves import Figure
from scalednl.lab.report.formatting import bound, claim_groups, interval
from scalednl.lab.report.verdicts import Verdict

COLOURS: dict[str, str] = {HOLDS: "green", FAILS: "red", SAME: "blue", OPEN: "grey"}
MARGINS = 5
"""The axis ends at so many times the largest margin"""
FOOT = (
    "Points of test error, to the right if it goes the claimed way; 95 % intervals. The grey band "
    "is the margin. Filled: green circle holds, red square does not hold, blue triangle no "
    "difference that matters. Hollow: open."
)


def verdict_figures(verdicts: Sequence[Verdict]) -> list[Figure]:
    """One figure for every scale that has judged differences of test errors."""
    return [
        Figure(f"Claims at the {scale} scale", *(_chart(shown, narrow) for narrow in (False, True)))
        for scale in dict.fromkeys(item.scale for item in verdicts)
        if (shown := [item for item in verdicts if item.scale == scale and _is_shown(item)])
    ]


def _is_shown(item: Verdict) -> bool:
    return item.quantity == "error" and bool(item.margin) and item.low is not None


def _chart(verdicts: Sequence[Verdict], narrow: bool) -> str:
    groups = [(title, [_row(item) for item in found]) for title, found in claim_groups(verdicts)]
    limit = MARGINS * max(row.margin for _, rows in groups for row in rows)
    title = f"What the runs say about {counted(len(verdicts), 'claim')}, scale {verdicts[0].scale}"
    return interval_chart(title, groups, limit=limit, foot=FOOT, narrow=narrow)


def _row(item: Verdict) -> Interval:
    numbers = item.mean, item.low, item.high, item.margin
    mean, low, high, margin = (number for number in numbers if number is not None)
    words = f"{bound(mean, item.quantity)} {interval(item, item.quantity)}"
    colour, hollow = COLOURS[item.answer], item.answer == OPEN
    return Interval(item.says, mean, low, high, margin, words, colour, hollow)
