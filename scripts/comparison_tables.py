"""Tables of docs/results.md that compare trainings seed by seed, wherever there are runs."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any

from scalednl.lab.config import Experiment
from scalednl.lab.paper.evidence import evidence_lines
from scalednl.lab.paper.grids import paper_setting
from scalednl.lab.records.runs import Cells
from scalednl.lab.report.aggregate import describe_block, last_errors
from scalednl.lab.report.formatting import data_words, difference_pieces, network_words
from scalednl.lab.report.markdown import markdown_table
from scalednl.lab.stats import contrast, paired
from scripts.result_tables import SCALE, error_words, recorded_runs

SAME_INIT = {
    "1 head, both start at 0.01": 0.01,
    "1 head, both start at He's": "he",
}
"""Pairs of one initialisation; in all others softmax starts at 0.01 and scaled at He's"""


def softmax_table() -> str:
    """Softmax against scaled blocks that are the same otherwise."""
    runs = recorded_runs()
    rows = [
        [_where(first), words, error_words(first, runs), error_words(second, runs), *found]
        for words, first, second in _softmax_pairs()
        if (found := _compared(first, second, runs))
    ]
    head = ["data, network", "blocks", "softmax", "scaled", "softmax − scaled", "scaled lower in"]
    return _table(head, rows)


def blocks_table() -> str:
    """Every kind of block against the position encoding alone."""
    runs = recorded_runs()
    rows = []
    for blocks in _declared():
        alone = replace(blocks, blocks=0, position=True)
        if blocks.blocks and (found := _compared(alone, blocks, runs)):
            words = describe_block(blocks)
            rows.append([_where(blocks), words, error_words(blocks, runs), *found])
    head = ["data, network", "blocks", "error", "position alone − blocks", "blocks lower in"]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of one data set and network together."""
    if not rows:
        return "No run has finished yet."
    return markdown_table(head, sorted(rows, key=lambda row: row[0]))


def _softmax_pairs() -> Iterator[tuple[str, Experiment, Experiment]]:
    """Pairs of trainings, and what both have: those that differ in nothing else, then SAME_INIT."""
    for softmax, scaled in product(_declared(), repeat=2):
        if (
            (softmax.block.attention, scaled.block.attention) == ("softmax", "scaled")
            and scaled == replace(softmax, recipe=scaled.recipe, block=scaled.block)
            and _differing(softmax, scaled) == ["attention"]
        ):
            yield describe_block(scaled).removeprefix("scaled, "), softmax, scaled
    for words, init in SAME_INIT.items():
        yield words, _one_head("softmax", init), _one_head("scaled", init)


def _differing(first: Experiment, second: Experiment) -> list[str]:
    """The options of blocks in which two trainings differ."""
    names = (field.name for field in fields(first.block))
    return [name for name in names if getattr(first.block, name) != getattr(second.block, name)]


def _one_head(attention: str, init: Any) -> Experiment:
    found = SCALE.experiment(paper_setting("cifar10", attention=attention, init=init))
    assert found is not None
    return found


def _declared() -> list[Experiment]:
    """Every training of the plan, once."""
    trainings = (e for line in evidence_lines() for _, e in line.artefact.trainings(SCALE))
    return list({experiment.cell: experiment for experiment in trainings}.values())


def _compared(first: Experiment, second: Experiment, runs: Cells) -> list[str]:
    """First - second with its interval, and in how many seeds the second is lower; or nothing."""
    members = (runs.get(one.cell, ()) for one in (first, second))
    differences = paired(*map(last_errors, members))
    if not differences:
        return []
    lower = f"{sum(value > 0 for value in differences)} of {len(differences)} seeds"
    return [" ".join(difference_pieces(contrast(differences))[:2]), lower]


def _where(experiment: Experiment) -> str:
    return f"{data_words(experiment.data)}, {network_words(experiment.model)}"
