"""How numbers are written on the page and in report.md."""

import re
from typing import Any

from scalednl.report.verdicts import FAILS, HOLDS

SCORES = {
    "key_share": (
        "key share",
        "share of the map's variance that keys alone explain: 1 is pure vertical lines",
    ),
    "query_dependence": (
        "query dependence",
        "mean cosine distance between the rows of two queries: 0 if all look at the same",
    ),
    "norm_correlation_mean": (
        "norm correlation, mean",
        "correlation over keys of the attention a key gets on average with its length",
    ),
    "norm_correlation_rms": (
        "norm correlation, size",
        "the same for the size of attention; without softmax it is high by construction",
    ),
    "effective_keys": ("effective keys", "at how many keys a query looks: exp of the entropy"),
    "effective_key_share": ("share of keys", "effective keys, divided by the number of keys"),
    "kept_by_magnitude": (
        "kept by magnitude",
        "share of the block's output left when attention sees only lengths",
    ),
    "kept_by_direction": (
        "kept by direction",
        "share of the block's output left when attention sees only directions",
    ),
}
"""Short and long names of scores; the others are their own names"""


def duration(seconds: float | None) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds is None:
        return ""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.1f} h"


def percent(value: float | None) -> str:
    """An error in percent, to two digits."""
    return "" if value is None else f"{value:.2f}"


def spread(summary: dict[str, Any]) -> str:
    """Mean ± standard deviation, the latter where there is one."""
    mean = f"{summary['mean']:.2f}"
    return mean if summary["sd"] is None else f"{mean} ± {summary['sd']:.2f}"


def printed(value: float) -> str:
    """A number of the paper, with the digits that it prints: two or more."""
    return f"{value:.2f}" if round(value, 2) == value else str(value)


def minus(value: float, digits: int = 2) -> str:
    """A signed number with a real minus sign."""
    return f"{value:+.{digits}f}".replace("-", "−")


def difference(contrast: dict[str, Any]) -> str:
    """A difference with its interval and p, short."""
    return " ".join(difference_pieces(contrast))


def difference_pieces(contrast: dict[str, Any]) -> list[str]:
    """The same in pieces that may stand below each other."""
    pieces = [minus(contrast["mean"])]
    if contrast["low"] is not None:
        pieces.append(f"[{minus(contrast['low'])}, {minus(contrast['high'])}]")
    return [*pieces, f"p {contrast['p']:.2g}"] if contrast["n"] > 1 else pieces


def difference_long(contrast: dict[str, Any]) -> str:
    """The same in words."""
    text = f"{minus(contrast['mean'])} points over {contrast['n']} common seeds"
    if contrast["low"] is not None:
        text += f", 95 % interval {minus(contrast['low'])} to {minus(contrast['high'])}"
    return f"{text}; sign-flip p = {contrast['p']:.2g}."


def signed(contrast: dict[str, Any], quantity: str) -> str:
    """A claim's difference in its unit, with n."""
    unit = " points" if quantity == "error" else ""
    digits = 2 if quantity == "error" else 3
    return f"{minus(contrast['mean'], digits)}{unit}, n {contrast['n']}"


def bound(value: float, quantity: str) -> str:
    """An end of a claim's interval."""
    return minus(value, 2 if quantity == "error" else 3)


def plain(cell: dict[str, Any] | None) -> str:
    """A cell for a spreadsheet or Markdown: mean, deviation, n."""
    ours = cell and cell["ours"]
    if not ours:
        return ""
    text = spread(ours["last"]) if ours["last"] else "none finished"
    text += f" (n={ours['n']})"
    return text + (f", {ours['diverged']} diverged" if ours["diverged"] else "")


def verdict_class(verdict: str) -> str:
    """The class that colours a verdict."""
    return {HOLDS: "holds", FAILS: "fails"}.get(verdict, "unclear")


def anchor(name: str) -> str:
    """A name as part of an address within the page; different names stay different."""
    return re.sub(r"[^A-Za-z0-9-]", lambda found: f"_{ord(found[0]):x}_", name)


def score_words(name: str) -> str:
    """A score's name in a table's head."""
    return SCORES.get(name, (name.replace("_", " "), ""))[0]


def score_title(name: str) -> str:
    """What a score is, for the pointer."""
    return SCORES.get(name, ("", name.replace("_", " ")))[1]
