"""What the runs of a plan can decide, before any of them has started."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import variance

from scalednl.lab.console import counted, duration
from scalednl.lab.paper.answers import Needed, at_a_look, settled_by_power
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.claims import Claim, ClaimRow, claims, main_claims, own_claims
from scalednl.lab.paper.rules import OFTEN_SEEDS, POWER, RULES, Rule
from scalednl.lab.paper.scales import PaperSetting
from scalednl.lab.records.runs import by_cell
from scalednl.lab.stats import detectable
from scalednl.lab.sweep.plan import SweepPlan

ENOUGH = 6
"""Degrees of freedom from which a measured deviation takes the place of the assumed one"""


@dataclass(frozen=True)
class Outlook:
    """One claim: what its planned seeds can show."""

    claim: Claim
    rows: int
    planned: int
    """Seeds of the row that has fewest; of counts, all runs"""
    seeds: int
    """Those of them that are judged"""
    sees: float | None
    """The smallest true difference seen with 80 % chance; None where nothing is judged"""
    largest: float
    """The largest difference that errors in 0 to 100 or scores in 0 to 1 can have"""
    margin: float
    printed: float | None
    """The paper's own contrast, over the same rows"""
    needed: Needed | None
    """Seeds that would see the margin"""
    hours_a_seed: float
    """All its trainings together, here"""

    @property
    def in_reach(self) -> bool:
        """Whether a difference of the margin would be seen; of counts, whether they suffice."""
        if self.claim.kind == "often":
            return self.planned >= OFTEN_SEEDS
        return self.sees is not None and self.sees <= self.margin

    @property
    def is_blind(self) -> bool:
        """Whether even the largest difference there can be would be missed too often."""
        return self.sees is not None and self.sees > self.largest

    @property
    def more_hours(self) -> float | None:
        """Hours of the seeds that are missing; None where no number of seeds is known."""
        more = None if self.needed is None else self.needed.more(self.planned)
        return None if more is None else more * self.hours_a_seed


@dataclass(frozen=True)
class Deviations:
    """What one run's test error scatters by, for each data set, and where that comes from."""

    by_data: Mapping[str, float]
    measured: Mapping[str, int]
    """Runs that it was measured on; data sets that are not here have an assumed one"""

    def words(self, used: Iterable[str]) -> str:
        """For a person, of the data sets used."""
        parts = []
        for data in dict.fromkeys(used):
            n = self.measured.get(data)
            how = f"measured on {n} runs" if n else "assumed"
            parts.append(f"{self.by_data[data]:.2g} points on {data} ({how})")
        return ", ".join(parts)


def outlooks(plan: SweepPlan, deviations: Deviations) -> tuple[list[Outlook], list[str]]:
    """Claims that the plan trains, and the names of those that it does not."""
    scale, seeds = plan.scale, Counter(run.cell for run in plan.runs)
    rule, family = RULES[scale.name], len(main_claims(scale))
    found, absent = [], []
    own = dict.fromkeys(one for table in plan.chosen for one in table.own)
    for claim in (*claims(), *own_claims(tuple(own))):
        trained = [row for row in claim.at(scale) if all(one.cell in seeds for one in row[1])]
        rows = [
            (terms, min(seeds[one.cell] for one in experiments), experiments[0].data)
            for terms, experiments in trained
        ]
        cells = {one.cell: one for _, experiments in trained for one in experiments}
        hours = sum(plan.rates.seconds(one) for one in cells.values()) / 3600
        if rows:
            level = rule.level(len(claim.distinct_rows(scale)))
            level /= family if claim.is_primary else 1
            found.append(_outlook(claim, rows, rule, level, deviations, hours))
        else:
            absent.append(claim.name)
    return found, absent


def _outlook(
    claim: Claim,
    rows: Sequence[tuple[ClaimRow, int, str]],
    rule: Rule,
    level: float,
    deviations: Deviations,
    hours: float,
) -> Outlook:
    is_error = claim.quantity == "error"
    fewest = min(n for _, n, _ in rows)
    margins = [rule.margins[data] if is_error else rule.score_margin for _, _, data in rows]
    printed = [_printed(terms) for terms, _, _ in rows]
    known = [value for value in printed if value is not None]
    margin = math.fsum(margins) / len(rows)
    if claim.kind == "often":
        runs = sum(n for _, n, _ in rows)
        enough = Needed(OFTEN_SEEDS, within_looks=True)
        return Outlook(claim, len(rows), runs, runs, None, 1.0, margin, None, enough, hours)
    data = rows[0][2]
    n = rule.seeds_used(fewest, data)
    sds = [
        (deviations.by_data[data] if is_error else rule.score_margin)
        * math.sqrt(sum(term.weight**2 for term in terms))
        for terms, _, data in rows
    ]
    # Of the mean over the rows; where all must hold, of the worst.
    pooled = math.sqrt(math.fsum(sd**2 for sd in sds)) / len(sds)
    sd = max(sds) if claim.kind == "always" else pooled
    sees = detectable(n, sd, level, POWER) if n > 1 else None
    mean = math.fsum(known) / len(known) if len(known) == len(rows) else None
    kind = "better" if claim.kind == "always" else claim.kind
    seeds = settled_by_power(kind, sd, margin, level)
    needed = at_a_look(seeds, rule.looks_at(data), fewest)
    largest = (100.0 if is_error else 1.0) * math.fsum(
        abs(term.weight) / 2 for term in max(rows, key=lambda row: len(row[0]))[0]
    )
    return Outlook(claim, len(rows), fewest, n, sees, largest, margin, mean, needed, hours)


def _printed(terms: ClaimRow) -> float | None:
    """The paper's value of a contrast, if it prints all of its cells."""
    table = _printed_values()
    values = [(term.weight, table.get(term.setting)) for term in terms]
    if any(value is None for _, value in values) or terms[0].quantity != "error":
        return None
    return math.fsum(weight * value for weight, value in values if value is not None)


@cache
def _printed_values() -> dict[PaperSetting, float]:
    return {
        cell.setting: cell.printed
        for artefact in artefacts().values()
        for cell in artefact.cells
        if cell.printed is not None
    }


def measured_deviations(plan: SweepPlan) -> Deviations:
    """Within cells, from the runs there that have finished; assumed where these are few."""
    groups: dict[str, list[list[float]]] = {}
    for runs in by_cell(plan.found).values():
        errors = [run.last_error for run in runs if run.counts and run.last_error is not None]
        experiment = runs[0].experiment
        if len(errors) > 1 and experiment is not None:
            groups.setdefault(experiment.data, []).append(errors)
    by_data, measured = dict(RULES[plan.scale.name].run_sd), {}
    for data, cells in groups.items():
        df = sum(len(errors) - 1 for errors in cells)
        squares = math.fsum((len(errors) - 1) * variance(errors) for errors in cells)
        if df >= ENOUGH and data in by_data and squares:
            by_data[data] = math.sqrt(squares / df)
            measured[data] = sum(map(len, cells))
    return Deviations(by_data, measured)


def outlook_lines(plan: SweepPlan) -> Iterator[str]:
    """The outlook as a person reads it."""
    rule, deviations = RULES[plan.scale.name], measured_deviations(plan)
    found, absent = outlooks(plan, deviations)
    looks = ", ".join(map(str, rule.looks))
    yield f"What these runs can decide (judged at {looks} seeds; {POWER:.0%} power):"
    yield f"  main claims (*) are corrected for their number, {len(main_claims(plan.scale))}"
    if rule.note:
        yield f"  {rule.note}"
    yield f"  one run scatters by {deviations.words(run.experiment.data for run in plan.runs)}"
    width = max((len(one.claim.name) for one in found), default=0)
    for one in found:
        mark = "*" if one.claim.is_primary else " "
        yield f"{mark} {one.claim.name:{width}}  {_sentence(one)}"
    far = sum(not one.in_reach for one in found)
    yield f"{len(found) - far} of {len(found)} claims are in reach of these runs"
    if absent:
        yield f"Not trained by this plan: {', '.join(absent)}"


def _sentence(one: Outlook) -> str:
    if one.claim.kind == "often":
        return f"with {counted(one.planned, 'run')}; {OFTEN_SEEDS} of which none diverges refute it"
    if one.sees is None:
        text = f"with {counted(one.planned, 'seed')} nothing is judged"
    elif one.is_blind:
        text = f"{counted(one.seeds, 'seed')} cannot decide it, however large the difference"
    else:
        unit = " points" if one.claim.quantity == "error" else ""
        text = f"with {counted(one.seeds, 'seed')} you can see {one.sees:.2g}{unit}"
    text += f", the margin is {one.margin:.3g}"
    if one.printed is not None:
        text += f", the paper prints {one.printed:.2f}"
    return text if one.in_reach else f"{text}; out of reach: {_missing(one)}"


def _missing(one: Outlook) -> str:
    if one.needed is None or one.needed.seeds is None or one.more_hours is None:
        return "no number of seeds is enough"
    beyond = "" if one.needed.within_looks else ", more than were declared"
    more = counted(one.needed.more(one.planned) or 0, "more seed")
    return f"{more} ({duration(3600 * one.more_hours)}) would be enough{beyond}"
