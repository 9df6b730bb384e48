"""All that a report says, as plain values: the page, report.md and report.json are made of it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalednl.lab.paper.answers import ANSWERS
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.hours import rates
from scalednl.lab.records import origin
from scalednl.lab.records.bench import find_bench_records
from scalednl.lab.records.runs import PRECISIONS, Cells, RunRecord, by_cell, find_runs
from scalednl.lab.report.aggregate import as_softmax, describe_block, outcome
from scalednl.lab.report.attention import find_attention, scores_of, without_pictures
from scalednl.lab.report.cost_claims import judge_costs
from scalednl.lab.report.costs import cost_section
from scalednl.lab.report.curves import figure2, learning_curves, other_curves
from scalednl.lab.report.paper_tables import grid, in_grid
from scalednl.lab.report.printed_numbers import noise_caption, printed_numbers
from scalednl.lab.report.verdicts import Verdict, judge_all

SCHEMA = 1


def build_content(
    folders: Sequence[Path], bench: Sequence[Path] = ()
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Everything below the folders, joined with what the paper prints; and attention's records."""
    runs = find_runs(folders)
    cells = by_cell(runs)
    counted = [run for members in cells.values() for run in members]
    attention, damaged = find_attention(runs)
    benchmarks, damaged_benchmarks = find_bench_records([*folders, *bench])
    scores = scores_of(attention)
    verdicts = judge_all(
        cells, lambda run, name: scores.get(run.name, {}).get(name), rates(counted).seconds
    )
    verdicts += judge_costs(benchmarks)
    content = {
        "schema": SCHEMA,
        "origin": origin().as_dict(),
        "counts": _counts(runs, verdicts),
        "verdicts": [verdict.as_dict() for verdict in verdicts],
        "printed": printed_numbers(),
        "tables": [_table(table, cells) for table in grid(cells)],
        "others": _others(cells),
        "costs": [cost_section(record) for record in benchmarks],
        "damaged_benchmarks": damaged_benchmarks,
        "attention": [without_pictures(record) for record in attention] + damaged,
        "runs": [_run(run, run in counted) for run in runs],
    }
    return content, attention


def _table(table: dict[str, Any], cells: Cells) -> dict[str, Any]:
    """A table with what is drawn of it, and the noise of its printed numbers."""
    table["noise"] = noise_caption(artefacts()[table["name"]])
    table["curves"] = learning_curves(artefacts()[table["name"]], cells)
    table["charts"] = figure2(table) if table["name"].startswith("figure2") else []
    return table


def _counts(runs: Sequence[RunRecord], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    told = Counter(verdict.answer for verdict in verdicts)
    return {
        "runs": len(runs),
        "status": dict(sorted(Counter(run.state for run in runs).items())),
        "seconds": sum(run.result.seconds for run in runs if run.result is not None),
        "verdicts": {name: told.get(name, 0) for name in ANSWERS},
    }


def _others(cells: Cells) -> dict[str, Any]:
    """Trainings that stand in none of the paper's tables, by data set and network."""
    known = in_grid()
    rows = []
    groups: dict[tuple[str, str], list[list[RunRecord]]] = {}
    order = {"plain": 0, "softmax": 1, "scaled": 2, "mean": 3}
    for cell, members in cells.items():
        experiment = members[0].experiment
        if cell in known or experiment is None:
            continue
        groups.setdefault((experiment.data, experiment.model), []).append(list(members))
        rows.append(
            {
                "data": experiment.data,
                "network": experiment.model,
                "blocks": describe_block(experiment),
                "recipe": experiment.recipe,
                "trained": _trained(members[0]),
                "order": order[experiment.block.attention if experiment.block.blocks else "plain"],
                "ours": outcome(
                    experiment, cells, as_softmax(experiment), members[0].setup.precision
                ),
                "seconds": _mean(members, "seconds"),
                "images_per_second": _mean(members, "images_per_second"),
                "parameters": members[0].result and members[0].result.parameters,
            }
        )
    rows.sort(key=lambda row: (row["data"], row["network"], row["order"], row["blocks"]))
    return {"rows": rows, "curves": other_curves(groups)}


def _trained(run: RunRecord) -> str:
    """How long and on how much."""
    assert run.experiment is not None
    images, precision = run.setup.train_images, run.setup.precision
    of = "" if images is None else f" of {images:,} images"
    note = "" if precision == PRECISIONS["fp32"] else f", precision {precision}"
    return f"{run.experiment.epochs} epochs{of}{note}"


def _mean(members: Sequence[RunRecord], name: str) -> float | None:
    found = [getattr(run.result, name, None) for run in members]
    values = [float(value) for value in found if value is not None]
    return sum(values) / len(values) if values else None


def _run(run: RunRecord, counted: bool) -> dict[str, Any]:
    """A line of the list of runs."""
    experiment, result, made = run.experiment, run.result, run.origin
    best_epoch = None if result is None else result.test_error_pct.best_epoch
    aside = "set aside: another run of this training and seed is further on"
    return {
        "name": run.name,
        "status": run.state,
        "problem": run.note or ("" if counted or experiment is None else aside),
        "recipe": experiment.recipe if experiment else None,
        "seed": experiment.seed if experiment else None,
        "data": experiment.data if experiment else None,
        "network": experiment.model if experiment else None,
        "blocks": describe_block(experiment) if experiment else None,
        "last": run.last_error,
        "best": run.best_error,
        "best_epoch": None if best_epoch is None else best_epoch + 1,
        "epochs": len(run.epochs),
        "planned_epochs": experiment.epochs if experiment else None,
        "seconds": result and result.seconds,
        "images_per_second": result and result.images_per_second,
        **{
            name: getattr(made, name)
            for name in ("date", "commit", "machine", "threads", "command")
        },
        "precision": run.setup.precision,
        "versions": made.packages,
    }
