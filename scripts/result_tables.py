"""Tables of docs/results.md and the README, from the records of runs."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from scalednl.lab.config import Experiment
from scalednl.lab.paper.answers import ANSWERS, OPEN
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.evidence import evidence_lines
from scalednl.lab.paper.grids import Artefact, paper_setting
from scalednl.lab.paper.scales import SCALES, PaperSetting
from scalednl.lab.records.runs import Cells, RunRecord, by_cell, find_runs
from scalednl.lab.report.aggregate import describe_block, outcome
from scalednl.lab.report.formatting import (
    bound,
    claim_groups,
    data_words,
    interval,
    network_words,
    optional,
    place,
    plain,
    printed,
)
from scalednl.lab.report.markdown import markdown_table
from scalednl.lab.report.settling import Enough
from scalednl.lab.report.verdicts import Verdict
from scalednl.lab.stats import MOST_SEEDS

LITE = Path(__file__).parents[1] / "results" / "lite"
RUNS = LITE / "runs"
AGAIN = LITE / "again"
"""Runs trained a second time: the first ones count, but their weights were lost"""
REPEATED = LITE / "repeated"
"""Runs made again with later code on the same model of processor, to compare them bit by bit"""
SCALE = SCALES["lite"]
FIRST_ROWS = (
    ("cifar10", "preresnet56", 1.0),
    ("cifar10", "preresnet56", 0.0),
    ("cifar100", "preresnet56", 1.0),
    ("cifar100", "preresnet32", 0.0),
)
"""Of the README's table, in the paper's terms: data set, network, where the blocks' norm starts"""
SETTLING = ("more seeds, if the mean stays", "more seeds, to detect the margin")
FIRST_COLUMNS: dict[str, dict[str, Any]] = {
    "no blocks": {"attention": "plain"},
    "no blocks, but their position encoding": {"attention": "plain", "position": True},
    "3 softmax blocks, 4 heads": {"attention": "softmax", "heads": 4},
    "3 scaled blocks, 4 heads": {"attention": "scaled", "heads": 4},
}


def recorded_runs() -> Cells:
    """The runs of the plan, by what was trained."""
    return by_cell(find_runs([RUNS]) if RUNS.is_dir() else [])


def _error(setting: PaperSetting, runs: Cells) -> str:
    experiment = SCALE.experiment(setting)
    return "" if experiment is None else error_words(experiment, runs)


def error_words(experiment: Experiment, runs: Cells) -> str:
    """Mean ± standard deviation (n) of the test errors, and how many diverged; or nothing."""
    return plain(outcome(runs.get(experiment.cell, ())))


def first_table() -> str:
    """The main comparison, for the README; a row per data set and network that was trained."""
    runs, rows = recorded_runs(), []
    for data, network, start in FIRST_ROWS:
        settings = [
            paper_setting(data, network=network, norm_init=start, **options)
            for options in FIRST_COLUMNS.values()
        ]
        if any(cells := [_error(setting, runs) for setting in settings]):
            words = f"{_training_words(settings[-1])}, batch norm starts at {start:g}"
            rows.append([words, *(cell or "not trained" for cell in cells)])
    return markdown_table(["test error, %", *FIRST_COLUMNS], rows)


def _training_words(setting: PaperSetting) -> str:
    """Data, network, images and epochs."""
    one = SCALE.experiment(setting)
    assert one is not None
    images = "all" if one.limit is None else f"{one.limit:,}"
    where = f"{data_words(one.data)}, {network_words(one.model)}"
    return f"{where}, {images} images, {one.epochs} epochs"


def lines_table() -> str:
    """How far the declared plan is."""
    runs = recorded_runs()
    rows = []
    for line in evidence_lines():
        trainings = [experiment for _, experiment in line.artefact.trainings(SCALE)]
        ended = [sum(run.has_ended for run in runs.get(one.cell, ())) for one in trainings]
        done = f"{sum(ended)} of {line.seeds * len(trainings)}"
        rows.append([str(line.number), line.decides, _trainings_words(trainings), done])
    return markdown_table(["line", "decides", "trainings", "runs"], rows)


def runs_table() -> str:
    """Every run of the plan: its test error by seed, then the mean training error of its cell."""
    runs = recorded_runs()
    rows: dict[str, list[str]] = {}
    trainings = [one for line in evidence_lines() for _, one in line.artefact.trainings(SCALE)]
    found = {one.cell: one for one in trainings if one.cell in runs}
    most = max((len(runs[cell]) for cell in found), default=0)
    for cell, one in found.items():
        by_seed = {run.seed: _run_words(run) for run in runs[cell]}
        trained = [run.epochs[-1].train_error_pct for run in runs[cell] if run.counts]
        name = f"{data_words(one.data)}, {network_words(one.model)}, {describe_block(one)}"
        rows[name] = [
            *(by_seed.get(seed, "") for seed in range(most)),
            f"{fmean(trained):.2f}" if trained else "",
        ]
    if not rows:
        return "No run has finished yet."
    head = ["", *(f"seed {seed}" for seed in range(most)), "training error, mean"]
    return markdown_table(head, [[name, *cells] for name, cells in rows.items()])


def _run_words(run: RunRecord) -> str:
    return f"{run.last_error:.2f}" if run.counts else run.state


def _trainings_words(trainings: Sequence[Experiment]) -> str:
    """Data set and network once, then the blocks of each training."""
    groups: dict[str, list[str]] = {}
    for one in trainings:
        where = f"{data_words(one.data)}, {network_words(one.model)}"
        groups.setdefault(where, []).append(describe_block(one))
    return ". ".join(f"{where}: {'; '.join(blocks)}" for where, blocks in groups.items())


def decided_list(verdicts: Sequence[Verdict]) -> str:
    """How many claims have which answer, then a line per claim that is not open."""
    if not verdicts:
        return "No run has finished yet."
    counts = ", ".join(
        f"{sum(item.answer == name for item in verdicts)} *{name}*" for name in ANSWERS
    )
    decided = [
        _answered(item) + (" (main claim)" if item.is_primary else " (descriptive, not corrected)")
        for item in sorted(verdicts, key=lambda item: not item.is_primary)
        if item.answer != OPEN
    ]
    return "\n".join([f"{len(verdicts)} claims: {counts}.", "", *decided]).rstrip()


def verdict_tables(verdicts: Sequence[Verdict]) -> str:
    """A table per group of claims, with what each verdict rests on and what would settle it."""
    head = ["claim", "difference", "p", "level", "seeds", "verdict", *SETTLING]
    parts = []
    for title, group in claim_groups(verdicts):
        rows = [
            [
                f"{item.says} ({place(item)})" if place(item) else item.says,
                *(_difference(item), _p_words(item), f"{item.level:g}", item.seeds),
                item.answer if item.answer == OPEN else f"**{item.answer}**",
                *_settling(item),
            ]
            for item in group
        ]
        parts.append(f"### {title}\n\n{markdown_table(head, rows)}")
    return "\n\n".join(parts) or "No run has finished yet."


def _difference(item: Verdict) -> str:
    if item.mean is None:
        return item.why
    return f"{bound(item.mean, item.quantity)} {interval(item, item.quantity)}".rstrip()


def _p_words(item: Verdict) -> str:
    """P of a claim, and corrected for the number of main claims."""
    if item.p_corrected is None:
        return optional(item.p)
    return f"{optional(item.p)}, corrected {optional(item.p_corrected)}"


def _settling(item: Verdict) -> list[str]:
    """More seeds, with hours, if the mean stays and to detect the margin."""
    more = item.more
    return ["", ""] if more is None else [_enough(more.if_mean_stays), _enough(more.for_margin)]


def _enough(found: Enough | None) -> str:
    """A number of seeds and hours; a star where they are more than were declared."""
    if found is None:
        return ""
    if found.more is None or found.hours is None:
        return f"over {MOST_SEEDS:,}"
    hours = f"{found.hours:.0f} h" if found.hours < 48 else f"{found.hours / 24:.0f} days"
    return f"{found.more}{'' if found.within_looks else '*'} ({hours})"


def _answered(item: Verdict) -> str:
    """The answer, the claim, and the difference with its place, if one was judged."""
    words = f"- **{item.answer}**: {item.says}"
    return words if item.mean is None else f"{words}: {_difference(item)}, {place(item)}"


def error_tables() -> str:
    """Every table that compares runs of which some are in no table before it."""
    runs, found = recorded_runs(), []
    shown: set[str] = set()
    for artefact in artefacts().values():
        rows, cells, columns = _table_rows(artefact, runs)
        if len(columns) > 1 and not cells <= shown:
            head = ["data", "network", "blocks", *columns]
            lines = [[*key, *(row.get(column, "") for column in columns)] for key, row in rows]
            found.append(f"### {artefact.title}\n\n{markdown_table(head, lines)}")
            shown |= cells
    return "\n\n".join(found) or "No run has finished yet."


def _table_rows(
    artefact: Artefact, runs: Cells
) -> tuple[list[tuple[tuple[str, str, str], dict[str, str]]], set[str], list[str]]:
    """Rows with the printed values beside ours, what was trained for them, and their columns."""
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    cells = set()
    for cell in artefact.cells:
        if ours := _error(cell.setting, runs):
            experiment = SCALE.experiment(cell.setting)
            assert experiment is not None
            cells.add(experiment.cell)
            key = data_words(experiment.data), network_words(experiment.model), cell.row
            value = "" if cell.printed is None else f" [{printed(cell.printed)}]"
            rows.setdefault(key, {})[cell.column] = f"{ours}{value}"
    filled = {column for row in rows.values() for column in row}
    return list(rows.items()), cells, [name for name in artefact.columns if name in filled]
