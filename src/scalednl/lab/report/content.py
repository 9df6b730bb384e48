"""All that a report shows: the page, report.md and report.json are made of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from scalednl.errors import UsageError
from scalednl.lab.charts.cost import draw
from scalednl.lab.config import Experiment
from scalednl.lab.console import counted
from scalednl.lab.paper.answers import ANSWERS
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.costs import chance_error_pct
from scalednl.lab.paper.hours import rates
from scalednl.lab.records.bench import BenchRecord, BlocksRecord, BlocksRow, find_bench_records
from scalednl.lab.records.origin import Origin, origin
from scalednl.lab.records.runs import (
    Cells,
    RunRecord,
    by_cell,
    find_runs,
)
from scalednl.lab.report.aggregate import (
    CellOutcome,
    as_softmax,
    describe_block,
    outcome,
    own_attentions_in,
    told_apart,
)
from scalednl.lab.report.attention import RunAttention, find_attention
from scalednl.lab.report.contrasts import Scores
from scalednl.lab.report.cost_claims import judge_costs
from scalednl.lab.report.curves import Figure, Place, attention_of, order_of, other_curves
from scalednl.lab.report.paper_tables import PaperTable, cells_in_tables, paper_table
from scalednl.lab.report.printed_numbers import PrintedNumbers, printed_numbers
from scalednl.lab.report.verdicts import Verdict, judge_all

SCHEMA = 3
"""1 and 2 had other names for some parts of `printed`, `attention`, tables and runs"""
SET_ASIDE = "set aside: another run of this training and seed counts"
BENCHMARKS = {
    "table3": ("Table 3. What three blocks cost a PreResNet-56", "scalednl bench table3"),
    "scaling": ("Cost over the size of the map", "scalednl bench scaling"),
    "blocks": ("One block, forward and backward", "scalednl demo"),
    "orders": ("Orders of multiplication", "scalednl bench orders"),
}
"""Titles of benchmarks, and the commands that measure them"""


@dataclass(frozen=True)
class Counts:
    """How many runs in which state, and how many verdicts of which kind."""

    runs: int
    states: dict[str, int]
    seconds: float
    verdicts: dict[str, int]
    """How many have which answer, of those that runs or benchmarks decide or leave open"""
    waiting: int
    """Claims that no seed could be judged for yet"""


@dataclass(frozen=True)
class Training:
    """A training that is in none of the paper's tables."""

    data: str
    network: str
    blocks: str
    recipe: str
    trained: str
    """How long, on how much, in which precision"""
    ours: CellOutcome
    seconds: float | None
    images_per_second: float | None
    parameters: int | None
    attention: str
    chance: float | None
    """Error of guessing in %, where the number of classes is known"""


@dataclass(frozen=True)
class RunRow:
    """A line of the list of runs."""

    name: str
    state: str
    problem: str
    recipe: str | None
    seed: int | None
    data: str | None
    network: str | None
    blocks: str | None
    last: float | None
    best: float | None
    best_epoch: int | None
    """Counted from 1"""
    epochs: int
    planned_epochs: int | None
    seconds: float | None
    images_per_second: float | None
    precision: str
    origin: Origin


@dataclass(frozen=True)
class CostSection:
    """One benchmark on the page."""

    kind: str
    title: str
    chart: str
    narrow: str
    """The chart for phones"""
    measured_by: str
    """The command that measures it"""
    quick: bool
    origin: Origin
    blocks: tuple[BlocksRow, ...] = ()
    """What single blocks cost, where the benchmark measured these"""
    busy: str = ""
    """That others used the machine meanwhile, in a sentence"""


@dataclass(frozen=True)
class Content:
    """A report."""

    schema: int
    origin: Origin
    counts: Counts
    verdicts: tuple[Verdict, ...]
    printed: PrintedNumbers
    tables: tuple[PaperTable, ...]
    others: tuple[Training, ...]
    curves: tuple[Figure, ...]
    """Learning curves of the others"""
    costs: tuple[CostSection, ...]
    damaged_benchmarks: tuple[str, ...]
    """What is wrong with records that cannot be read"""
    attention: tuple[RunAttention, ...]
    damaged_attention: tuple[str, ...]
    runs: tuple[RunRow, ...]


def build_content(folders: Sequence[Path], bench: Sequence[Path] = ()) -> Content:
    """Everything below the folders, joined with what the paper prints."""
    runs = find_runs(folders)
    cells = by_cell(runs)
    counting = [run for members in cells.values() for run in members]
    attention, damaged_attention = find_attention(runs)
    benchmarks, damaged = find_bench_records([*folders, *bench])
    verdicts = [
        *judge_all(cells, _scores(attention), rates(counting).seconds),
        *judge_costs(benchmarks),
    ]
    others, curves = _others(cells)
    own = own_attentions_in(cells)
    names = {run.name for run in counting}
    return Content(
        schema=SCHEMA,
        origin=origin(),
        counts=_counts(runs, verdicts),
        verdicts=tuple(verdicts),
        printed=printed_numbers(),
        tables=tuple(paper_table(artefact, cells) for artefact in artefacts(own).values()),
        others=others,
        curves=curves,
        costs=tuple(cost_section(record) for record in benchmarks),
        damaged_benchmarks=tuple(damaged),
        attention=tuple(attention),
        damaged_attention=tuple(damaged_attention),
        runs=tuple(_run(run, run.name in names) for run in runs),
    )


def _scores(records: Sequence[RunAttention]) -> Scores:
    """The means over images of a run's first block, the one that Figure 1 shows."""
    found = {one.run: one.record.blocks[0].scores for one in records}

    def score(run: RunRecord, name: str) -> float | None:
        summary = found.get(run.name, {}).get(name)
        return None if summary is None else summary.mean

    return score


def _counts(runs: Sequence[RunRecord], verdicts: Sequence[Verdict]) -> Counts:
    answers = Counter(verdict.answer for verdict in verdicts if not verdict.is_waiting)
    return Counts(
        runs=len(runs),
        states=dict(sorted(Counter(run.state for run in runs).items())),
        seconds=sum(run.result.seconds for run in runs if run.result is not None),
        verdicts={name: answers[name] for name in ANSWERS},
        waiting=sum(verdict.is_waiting for verdict in verdicts),
    )


def _others(cells: Cells) -> tuple[tuple[Training, ...], tuple[Figure, ...]]:
    """Trainings that are in none of the paper's tables, by data set and network."""
    known = cells_in_tables(cells)
    found: list[tuple[tuple[str, str, int, str], Training]] = []
    groups: dict[Place, list[Sequence[RunRecord]]] = {}
    others = {
        cell: (experiment, members)
        for cell, members in cells.items()
        if cell not in known and (experiment := members[0].experiment)
    }
    apart = told_apart([experiment for experiment, _ in others.values()])
    for cell, (experiment, members) in others.items():
        groups.setdefault((experiment.data_name, experiment.model), []).append(members)
        row = _training(members, cells)
        if apart[cell]:
            row = replace(row, trained=f"{row.trained}, {apart[cell]}")
        order = order_of(attention_of(experiment))
        found.append(((row.data, row.network, order, row.blocks), row))
    rows = (row for _, row in sorted(found, key=lambda item: item[0]))
    return tuple(rows), tuple(other_curves(groups))


def _training(members: Sequence[RunRecord], cells: Cells) -> Training:
    first, experiment = members[0], members[0].experiment
    assert experiment is not None
    images = first.setup.train_images
    softmax = as_softmax(experiment)
    ours = outcome(members, () if softmax is None else cells.get(softmax.cell, ()))
    assert ours is not None
    trained = counted(experiment.epochs, "epoch")
    trained += "" if images is None else f" of {images:,} images"
    trained += "" if experiment.precision == "fp32" else f", {experiment.precision}"
    results = [run.result for run in members if run.result is not None]
    speeds = [one.images_per_second for one in results if one.images_per_second is not None]
    return Training(
        *(experiment.data_name, experiment.model, describe_block(experiment), experiment.recipe),
        *(trained, ours),
        seconds=fmean(one.seconds for one in results) if results else None,
        images_per_second=fmean(speeds) if speeds else None,
        parameters=results[0].parameters if results else None,
        attention=attention_of(experiment),
        chance=_chance(experiment),
    )


def _chance(experiment: Experiment) -> float | None:
    try:
        return chance_error_pct(experiment)
    except (UsageError, ZeroDivisionError):
        return None


def _run(run: RunRecord, counts: bool) -> RunRow:
    experiment, result = run.experiment, run.result
    best_epoch = None if result is None else result.test_error_pct.best_epoch
    return RunRow(
        name=run.name,
        state=run.state,
        problem=run.note or ("" if counts or experiment is None else SET_ASIDE),
        recipe=experiment.recipe if experiment else None,
        seed=run.seed,
        data=experiment.data_name if experiment else None,
        network=experiment.model if experiment else None,
        blocks=describe_block(experiment) if experiment else None,
        last=run.last_error,
        best=run.best_error,
        best_epoch=None if best_epoch is None else best_epoch + 1,
        epochs=len(run.epochs),
        planned_epochs=experiment.epochs if experiment else None,
        seconds=None if result is None else result.seconds,
        images_per_second=None if result is None else result.images_per_second,
        precision=run.setup.precision,
        origin=run.origin,
    )


def cost_section(record: BenchRecord) -> CostSection:
    """What the page shows of a record."""
    title, command = BENCHMARKS[record.KIND]
    command += " --quick" * (record.quick and record.KIND != "blocks")
    blocks = record.rows if isinstance(record, BlocksRecord) else ()
    return CostSection(
        *(record.KIND, title, draw(record), draw(record, narrow=True), command),
        *(record.quick, record.origin, blocks, _busy(record)),
    )


def _busy(record: BenchRecord) -> str:
    if not record.is_disturbed:
        return ""
    return f"The machine was busy while this was timed: {record.disturbance}."
