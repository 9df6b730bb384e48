"""The first screen of the page: what was asked, and the answers."""

from collections.abc import Callable
from dataclasses import dataclass

from scalednl.lab.config.data_sets import is_generated
from scalednl.lab.console import counted
from scalednl.lab.paper.answers import FAILS, HOLDS, OPEN, SAME
from scalednl.lab.recipes import PLAIN
from scalednl.lab.records.bench import BlocksRow
from scalednl.lab.records.methods import METHODS
from scalednl.lab.report.aggregate import SOFTMAX
from scalednl.lab.report.content import Content, Training
from scalednl.lab.report.curves import colour_of, order_of
from scalednl.lab.report.formatting import data_words, network_words
from scalednl.lab.report.verdicts import Verdict

QUESTIONS = {
    "pairs": (
        "Can a network compare two distant places?",
        "Each image has two gratings at opposite edges, and the class is the difference of their "
        "angles. Without a block, no unit of the network sees both.",
    ),
    "recall": (
        "Can a network look a value up?",
        "One colour occurs at both edges of an image; the class is how far its two gratings are "
        "turned against each other. The colours are keys, the orientations values.",
    ),
}
"""What a generated data set asks, and how"""
NO_QUESTION = "Softmax-free non-local networks, measured"
METHODS_OF = {
    "softmax": (METHODS["softmax fused"].label, METHODS["softmax plain"].label),
    "scaled": (METHODS["auto"].label,),
}
"""Attention -> the block of it whose cost is shown: the first one measured, as blocks choose it"""
ARMS = 4
LARGEST_RATIO = 1e9
"""Costs that differ by more are those of a damaged record"""
NEAR_CHANCE = 5.0
"""Points between an error and that of guessing that make it a guess"""
COUNT_WORDS: dict[str, str] = {
    HOLDS: "hold",
    FAILS: "do not hold",
    SAME: "no difference",
    OPEN: "open",
}
GENERATED = "generated images: no answer about the paper"
"""Beside a verdict"""


@dataclass(frozen=True)
class Arm:
    """One kind of block: its training, and what one block costs."""

    name: str
    colour: str
    training: Training
    cost: BlocksRow | None

    @property
    def is_chance(self) -> bool:
        """Whether its error is that of guessing."""
        last, chance = self.training.ours.last, self.training.chance
        return last is not None and chance is not None and abs(last.mean - chance) < NEAR_CHANCE


@dataclass(frozen=True)
class Comparison:
    """Trainings that differ in their block alone."""

    data: str
    network: str
    trained: str
    arms: tuple[Arm, ...]
    busy: str
    """That the machine was busy when blocks were timed, in a sentence"""

    @property
    def has_costs(self) -> bool:
        """Whether the cost of blocks is known."""
        return any(arm.cost for arm in self.arms)

    @property
    def seeds(self) -> int:
        """Finished runs of the arm that has fewest."""
        return min(arm.training.ours.n for arm in self.arms)

    def time_words(self, arm: Arm) -> str:
        """An arm's time beside that of softmax, in words; "" where there is nothing to compare."""
        return self._beside_softmax(arm, lambda cost: cost.milliseconds, ("faster", "slower"))

    def memory_words(self, arm: Arm) -> str:
        """An arm's memory beside that of softmax."""
        return self._beside_softmax(arm, lambda cost: cost.bytes_kept, ("less", "more"))

    def _beside_softmax(
        self, arm: Arm, value: Callable[[BlocksRow], float], words: tuple[str, str]
    ) -> str:
        softmax = next((one.cost for one in self.arms if one.name == SOFTMAX), None)
        if softmax is None or arm.cost is None or arm.name == SOFTMAX:
            return ""
        theirs, mine = value(softmax), value(arm.cost)
        smaller, larger = sorted((theirs, mine))
        if smaller < larger / LARGEST_RATIO:
            return ""
        times = larger / smaller
        return f"{times:,.{0 if times >= 10 else 1}f} times {words[theirs < mine]}"


@dataclass(frozen=True)
class Story:
    """What the first screen says."""

    question: str
    how: str
    comparison: Comparison | None
    warning: str
    """That no run is of the paper's data; "" where some are"""
    counts: tuple[tuple[str, str, int], ...]
    """An answer, its words, and how many judged claims have it"""
    main: tuple[Verdict, ...]
    """The main claims that were judged, those with an answer first"""
    settled: tuple[Verdict, ...]
    """Other claims that have an answer"""
    asked: str
    """How many claims were judged, in a sentence"""


def tell(content: Content) -> Story:
    """The story of a report."""
    judged = [one for one in content.verdicts if not one.is_waiting]
    main = [one for one in judged if one.is_primary]
    comparison = None if any(one.quantity != "cost" for one in judged) else compare(content)
    question, how = _question(content, comparison)
    answers = content.counts.verdicts.items()
    return Story(
        *(question, how, comparison, warning(content)),
        tuple((name, COUNT_WORDS[name], count) for name, count in answers),
        tuple(sorted(main, key=lambda one: one.answer == OPEN)),
        tuple(one for one in judged if not one.is_primary and one.answer != OPEN),
        asked(content),
    )


def _question(content: Content, comparison: Comparison | None) -> tuple[str, str]:
    if comparison is None:
        return ("Do the paper's claims hold?" if content.verdicts else NO_QUESTION), ""
    place = f"{network_words(comparison.network)} on {data_words(comparison.data)}"
    return QUESTIONS.get(comparison.data, (f"What do non-local blocks change for {place}?", ""))


def compare(content: Content) -> Comparison | None:
    """The data set, network and length of training with most kinds of attention, two or more."""
    groups: dict[tuple[str, str, str], dict[str, Training]] = {}
    for row in content.others:
        if row.ours.last is not None:
            kinds = groups.setdefault((row.data, row.network, row.trained), {})
            kinds.setdefault(row.attention, row)
    place, rows = max(groups.items(), key=lambda item: len(item[1]), default=(("", "", ""), {}))
    if len(rows) < 2:
        return None
    costs = {row.method: row for section in content.costs for row in section.blocks}
    shown = sorted(rows, key=order_of)[:ARMS]
    busy = "".join(section.busy for section in content.costs if section.blocks)
    return Comparison(*place, tuple(_arm(kind, rows[kind], costs) for kind in shown), busy)


def _arm(kind: str, row: Training, costs: dict[str, BlocksRow]) -> Arm:
    name = "no block" if kind == PLAIN else kind
    measured = (costs[method] for method in METHODS_OF.get(kind, ()) if method in costs)
    return Arm(name, colour_of(kind), row, next(measured, None))


def warning(content: Content) -> str:
    """A sentence saying that all runs are of generated images; "" where some are not."""
    data = {run.data for run in content.runs if run.data is not None}
    if not data or not all(map(is_generated, data)):
        return ""
    runs = "The run here is" if len(content.runs) == 1 else f"All {len(content.runs)} runs here are"
    return f"{runs} of generated images: nothing here bears on the paper's data."


def asked(content: Content) -> str:
    """How many claims were judged, and how many wait for runs; "" without any."""
    total, waiting = len(content.verdicts), content.counts.waiting
    if not total:
        return ""
    if waiting == total:
        return f"None of {counted(total, 'claim')} can be judged yet: too few seeds are finished."
    verb = "waits" if waiting == 1 else "wait"
    rest = f"; {waiting} {verb} for more seeds" if waiting else ""
    return f"{total - waiting} of {counted(total, 'claim')} judged{rest}."
