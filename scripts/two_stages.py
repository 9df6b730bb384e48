"""The table of docs/training.md about two stages on Tiny-ImageNet, from results/tiny."""

from pathlib import Path

from scalednl.lab.records.runs import RunRecord, find_runs
from scalednl.lab.report.aggregate import describe_block
from scalednl.lab.report.markdown import markdown_table

TINY = Path(__file__).parents[1] / "results" / "tiny"


def two_stages_table(folder: Path = TINY) -> str:
    """A row per run: the first stage, then what was trained from its weights."""
    runs = [run for run in find_runs([folder]) if run.counts] if folder.is_dir() else []
    if not runs:
        return "No run has finished yet."
    rows = [_row(run) for run in sorted(runs, key=_order)]
    head = ["stage", "blocks", "epochs", "training error, %", "test error, %"]
    return markdown_table(head, rows)


def _order(run: RunRecord) -> tuple[bool, str]:
    assert run.experiment is not None
    return run.experiment.finetune, run.origin.date


def _row(run: RunRecord) -> list[str]:
    assert run.experiment is not None
    stage = "second" if run.experiment.finetune else "first"
    trained, tested = run.epochs[-1].train_error_pct, run.last_error
    return [
        stage,
        describe_block(run.experiment),
        str(len(run.epochs)),
        f"{trained:.2f}",
        f"{tested:.1f}",
    ]
