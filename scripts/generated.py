"""Networks on `pairs` and `recall` for the guides: their trainings and tables.

python -m scripts.generated RUNS

trains in the folder RUNS what is missing there, half an hour of one core in all, and scores the
attention of every network. `python -m scripts.results generated RUNS` then copies the records to
results/generated and writes the tables of docs/data.md and docs/attention.md.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scalednl.lab.config import Experiment, RunSettings
from scalednl.lab.paper.scales import run_name
from scalednl.lab.recipes import find_recipe
from scalednl.lab.records.attention import AttentionRecord, is_current, read_attention
from scalednl.lab.records.run import RunFolder
from scalednl.lab.records.runs import RunRecord, by_cell, find_runs
from scalednl.lab.report.aggregate import describe_block
from scalednl.lab.report.markdown import markdown_table
from scalednl.lab.user_code import load_attention

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "results" / "generated"
ONE_ROW = ROOT / "docs" / "examples" / "one_row_attention.py"
SEEDS = (0, 1, 2)
IMAGES = 500
"""Test images whose attention is scored"""


@dataclass(frozen=True)
class Training:
    """A row of a table: a recipe, and the heads and channels in which it differs."""

    recipe: str
    heads: int = 4
    embed_channels: int | None = None

    def experiment(self, seed: int) -> Experiment:
        """What is trained."""
        recipe = find_recipe(self.recipe)
        block = replace(recipe.block, heads=self.heads, embed_channels=self.embed_channels)
        return replace(recipe, seed=seed, block=block if recipe.blocks else recipe.block)

    def describes(self, run: RunRecord) -> bool:
        """Whether a run is one of this training; its attention need not be registered."""
        if run.experiment is None or run.experiment.recipe != self.recipe:
            return False
        block = run.experiment.block
        same = (block.heads, block.embed_channels) == (self.heads, self.embed_channels)
        return same or not run.experiment.blocks


TRAININGS = (
    Training("pairs-plain"),
    Training("pairs-softmax"),
    Training("pairs-scaled"),
    Training("recall-plain"),
    Training("recall-softmax"),
    Training("recall-softmax", heads=1, embed_channels=4),
    Training("recall-scaled"),
    Training("recall-scaled", heads=1, embed_channels=4),
    Training("recall-scaled", heads=1),
    Training("recall-one_row"),
)
"""In the order of the tables"""


def main(arguments: Sequence[str]) -> None:
    """Train and score what is missing."""
    if len(arguments) != 1:
        sys.exit(__doc__)
    from scalednl.lab.attention.record import record_run
    from scalednl.lab.training.run import run

    load_attention(ONE_ROW, "one_row")
    settings = RunSettings(threads=1, tensorboard=False)
    for experiment in (one.experiment(seed) for one in TRAININGS for seed in SEEDS):
        path = Path(arguments[0]) / run_name(experiment)
        print(path, flush=True)
        if run(experiment, path, settings).status == "interrupted":
            sys.exit(130)
        if experiment.blocks and not is_current(path, IMAGES):
            record_run(path, images=IMAGES, quiet=False)


def generated_runs(data: str) -> Iterator[tuple[Training, list[RunRecord]]]:
    """The recorded runs of a data set, by training and seed."""
    cells = by_cell(find_runs([GENERATED]) if GENERATED.is_dir() else []).values()
    for training in TRAININGS:
        found = [runs for runs in cells if training.describes(runs[0])]
        if training.recipe.startswith(f"{data}-") and found:
            assert len(found) == 1, f"{training} is in {len(found)} versions: collect one"
            yield training, sorted(found[0], key=lambda run: run.seed or 0)


def attention_records(data: str) -> list[AttentionRecord]:
    """The records of attention of a data set's runs."""
    runs = [run for _, found in generated_runs(data) for run in found]
    records = [read_attention(RunFolder(run.path).attention) for run in runs]
    return [record for record in records if record is not None]


def errors_table(data: str) -> str:
    """Test errors by seed, as trained and with one row of the map for all queries."""
    rows = []
    for _, runs in generated_runs(data):
        assert runs[0].experiment is not None
        errors = [f"{run.last_error:.1f}" if run.counts else run.state for run in runs]
        rows.append([describe_block(runs[0].experiment), ", ".join(errors), _one_row_errors(runs)])
    if not rows:
        return "No run has finished yet."
    seeds = f"seeds {SEEDS[0]} to {SEEDS[-1]}"
    return markdown_table(["", f"test error, %, {seeds}", "mean row for all queries"], rows)


def _one_row_errors(runs: Sequence[RunRecord]) -> str:
    records = [read_attention(RunFolder(run.path).attention) for run in runs]
    tested = [None if record is None else record.ablations for record in records]
    if not any(tested):
        return ""
    errors = ["?" if one is None else f"{one.error_pct['column_mean']:.1f}" for one in tested]
    return ", ".join(errors)


if __name__ == "__main__":
    main(sys.argv[1:])
