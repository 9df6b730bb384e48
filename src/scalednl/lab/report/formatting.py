"""How numbers are written on the page and in report.md."""

import re
from collections.abc import Sequence
from importlib.resources import files

import msgspec

from scalednl.lab.config.data_sets import DATA_SETS
from scalednl.lab.console import counted, duration
from scalednl.lab.paper.answers import FAILS, HOLDS, OPEN, SAME
from scalednl.lab.paper.grids import NETWORKS
from scalednl.lab.report.aggregate import CellOutcome
from scalednl.lab.report.settling import Enough
from scalednl.lab.report.verdicts import Verdict
from scalednl.lab.stats import MOST_SEEDS, Contrast, Summary, summarise

_NAMES = msgspec.json.decode(
    files("scalednl.lab.report").joinpath("page", "scores.json").read_bytes(),
    type=dict[str, dict[str, tuple[str, str]]],
)
SCORES, ABLATIONS = _NAMES["scores"], _NAMES["ablations"]
"""Short names and definitions, by the names in records: of scores, and of what maps are replaced
with; others are called by their own name"""
LONGEST = 1000
"""Characters that are shown of a text"""
GROUPS = (
    "Main claims of the paper, corrected for their number",
    "Other claims and contrasts of the paper's tables, not corrected",
    "Questions of this project, not corrected",
    "Cost, from benchmarks",
)
NETWORK_WORDS = {ours: paper for paper, ours in NETWORKS.items()}


def data_words(name: str) -> str:
    """A data set as people write it."""
    return DATA_SETS[name].words if name in DATA_SETS else name


def network_words(name: str) -> str:
    """A network as people write it, the paper's own or a smaller one."""
    words = NETWORK_WORDS.get(name, name.replace("preresnet", "PreResNet").replace("wrn", "WRN-"))
    return re.sub(r"PreResNet(?=\d)", "PreResNet-", words)


def limited(text: str) -> str:
    """Text from a file, at most LONGEST characters of it."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def percent(value: float | None) -> str:
    """An error in percent, to two digits."""
    return "" if value is None else f"{value:.2f}"


def spread(summary: Summary, digits: int = 2) -> str:
    """Mean ± standard deviation, the latter where there is one."""
    mean = f"{summary.mean:.{digits}f}"
    return mean if summary.sd is None else f"{mean} ± {summary.sd:.{digits}f}"


def spread_of(values: Sequence[float]) -> str:
    """Mean ± standard deviation (n) of values, or nothing where there are none."""
    return f"{spread(summarise(values))} (n={len(values)})" if values else ""


def printed(value: float | None) -> str:
    """A number of the paper, with the digits that it prints: two or more."""
    if value is None:
        return ""
    return f"{value:.2f}" if round(value, 2) == value else str(value)


def minus(value: float, digits: int = 2) -> str:
    """A signed number with a real minus sign."""
    return f"{value:+.{digits}f}".replace("-", "−")


def difference(contrast: Contrast) -> str:
    """A difference with its interval and p, short."""
    return " ".join(difference_pieces(contrast))


def difference_pieces(contrast: Contrast) -> list[str]:
    """The same in pieces that may stand below each other."""
    pieces = [minus(contrast.mean)]
    if contrast.low is not None and contrast.high is not None:
        pieces.append(f"[{minus(contrast.low)}, {minus(contrast.high)}]")
    return [*pieces, f"p {contrast.p:.2g}"] if contrast.p is not None else pieces


def difference_long(contrast: Contrast) -> str:
    """The same in words."""
    text = f"{minus(contrast.mean)} points over {counted(contrast.n, 'common seed')}"
    if contrast.low is not None and contrast.high is not None:
        text += f", 95 % interval {minus(contrast.low)} to {minus(contrast.high)}"
    return text + (f"; t test, p = {contrast.p:.2g}." if contrast.p is not None else ".")


def bound(value: float, quantity: str) -> str:
    """A mean or an end of its interval, in a claim's digits."""
    return minus(value, 2 if quantity == "error" else 3)


def interval(item: Verdict | Summary, quantity: str) -> str:
    """The interval of a verdict or a mean, or nothing."""
    if item.low is None or item.high is None:
        return ""
    return f"[{bound(item.low, quantity)}, {bound(item.high, quantity)}]"


def optional(value: float | None) -> str:
    """A number to two digits, or nothing."""
    return "" if value is None else f"{value:.2g}"


def claim_groups(items: Sequence[Verdict]) -> list[tuple[str, list[Verdict]]]:
    """The main claims, the others, questions of this project, and cost, as far as there are any."""
    found = ((title, [one for one in items if _group(one) == title]) for title in GROUPS)
    return [(title, group) for title, group in found if group]


def _group(item: Verdict) -> str:
    main, others, ours, cost = GROUPS
    if item.quantity == "cost":
        return cost
    return ours if item.is_ours else main if item.is_primary else others


def place(item: Verdict) -> str:
    """Where a verdict was reached: data sets and networks, or the benchmark."""
    if item.where or not item.rows:
        return item.where
    used = [row for row in item.rows if row.n] or item.rows
    rows = [(data_words(row.data), network_words(row.network)) for row in used]
    return "; ".join(dict.fromkeys(f"{data}, {network}" for data, network in rows))


def needed(item: Verdict) -> str:
    """What would settle an open verdict, in a sentence; nothing for the others."""
    more = item.more
    if item.answer != OPEN or more is None:
        return ""
    unit = (" point" if item.margin == 1 else " points") if item.quantity == "error" else ""
    margin = f"{item.margin:.3g}{unit}" if item.margin else "a difference that matters"
    wanted = "if none of them diverges" if item.kind == "often" else f"to detect {margin}"
    what = "run" if item.kind == "often" else "seed"
    found = (
        _enough(more.if_mean_stays, what, "if the mean stays"),
        _enough(more.for_margin, what, wanted),
    )
    parts = [text for text in found if text]
    guess = ", with a scatter that is assumed" if more.is_assumed else ""
    return f"Would settle it: {'; '.join(parts)}{guess}." if parts else ""


def _enough(found: Enough | None, what: str, when: str) -> str:
    if found is None:
        return ""
    if found.more is None or found.hours is None:
        return f"more than {MOST_SEEDS:,} {what}s {when}"
    beyond = "" if found.within_looks else ", more than were declared"
    hours = duration(3600 * found.hours)
    return f"{counted(found.more, f'more {what}')} ({hours} of training here) {when}{beyond}"


def plain(ours: CellOutcome | None) -> str:
    """A cell for a spreadsheet or Markdown: mean, deviation, n."""
    if ours is None:
        return ""
    text = spread(ours.last) if ours.last else "none finished"
    text += f" (n={ours.n})"
    return text + (f", {ours.diverged} diverged" if ours.diverged else "")


def verdict_class(verdict: str) -> str:
    """The class that colours a verdict."""
    classes: dict[str, str] = {HOLDS: "holds", FAILS: "fails", SAME: "same"}
    return classes.get(verdict, "open")


def anchor(name: str) -> str:
    """A name as part of an address within the page; different names stay different."""
    return re.sub(r"[^A-Za-z0-9-]", lambda found: f"_{ord(found[0]):x}_", name)


def score_words(name: str) -> str:
    """A short name for a score or an ablation."""
    return _definition(name)[0]


def score_title(name: str) -> str:
    """The definition of a score or an ablation."""
    return _definition(name)[1]


def _definition(name: str) -> tuple[str, str]:
    words = name.replace("_", " ")
    return {**SCORES, **ABLATIONS}.get(name, (words, words))


def score_number(value: float) -> str:
    """A score to three digits after the point, or one from 10 on."""
    return f"{value:.{3 if abs(value) < 10 else 1}f}".replace("-", "−")
