"""Trained networks that come with the package.

python -m scripts.weights publish RUN [NAME]

copies the weights and records of a finished run to src/scalednl/weights/NAME (NAME is
DATA-NETWORK-ATTENTION if not given) and writes its model card;

python -m scripts.weights

writes all cards again from the records. `make results` then writes the table of docs/weights.md.
"""

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from scalednl.errors import CommandError, UsageError
from scalednl.files import sha256_of, write_text
from scalednl.lab.config import Experiment
from scalednl.lab.console import short_bytes
from scalednl.lab.records.run import RunFolder
from scalednl.lab.report.formatting import data_words, percent
from scalednl.lab.report.markdown import markdown_table
from scalednl.models import published
from scripts.model_card import card, changed_from_recipe, published_run, what

RECORDS = ("config.json", "epochs.jsonl", "result.json", "predictions.npy")
"""What is published of a run beside its weights"""
FILES = (published.FILE, *RECORDS, "README.md")
"""What the folder of a published network has"""
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
LARGEST = 4 << 20
"""Bytes of a file of weights: all of them are downloaded with the package"""


def main(arguments: Sequence[str]) -> None:
    """Publish a run, or write the cards."""
    if not arguments:
        for name in published.list_weights():
            write_card(published.FOLDER / name, name)
    elif arguments[0] == "publish" and len(arguments) in (2, 3):
        folder = publish(Path(arguments[1]), *arguments[2:])
        print(f"{folder.name}: published in {folder}; `make results` adds it to docs/weights.md")
    else:
        sys.exit(__doc__)


def publish(run: Path, name: str | None = None) -> Path:
    """Copy what a finished run came to into the package, with a card; the folder."""
    _, experiment, result = published_run(run)
    name = name or default_name(experiment)
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name for weights: use a-z, 0-9, - and _")
    weights = RunFolder(run).weights
    _check_weights(weights, result.weights_sha256)
    _check_records(run)
    folder = published.FOLDER / name
    building, before = (folder.with_name(f".{name}.{part}") for part in ("part", "before"))
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    for file in (published.FILE, *RECORDS):
        shutil.copyfile(run / file, building / file)
    write_card(building, name)
    if folder.exists():
        shutil.rmtree(before, ignore_errors=True)
        folder.rename(before)
    building.rename(folder)
    shutil.rmtree(before, ignore_errors=True)
    return folder


def write_card(folder: Path, name: str) -> None:
    """Write the model card of a published network from its records."""
    write_text(folder / "README.md", card(folder, name))


def default_name(experiment: Experiment) -> str:
    """DATA-NETWORK-ATTENTION, as recipes are called without their variant."""
    attention = experiment.block.attention if experiment.blocks else "plain"
    return f"{experiment.data}-{experiment.model}-{attention}"


def _check_weights(weights: Path, recorded: str | None) -> None:
    if not weights.is_file() or recorded != sha256_of(weights):
        raise UsageError(
            f"{weights} is missing or is not what the training wrote: `scalednl train "
            f"{weights.parent}` writes it again"
        )
    if (size := weights.stat().st_size) > LARGEST:
        raise UsageError(
            f"{weights} has {short_bytes(size)}, too much for a package "
            f"(limit {short_bytes(LARGEST)})"
        )


def _check_records(run: Path) -> None:
    for name in RECORDS:
        if not (run / name).is_file():
            raise UsageError(f"{run} has no {name}: train it again with this version")
    for name in ("config.json", "result.json"):
        if '"/' in (run / name).read_text(encoding="utf-8"):
            raise UsageError(
                f"{run / name} names a folder of this machine: train without --root (set "
                "$SCALEDNL_DATA) and with relative paths"
            )


def weights_table() -> str:
    """The published networks, for docs/weights.md."""
    rows = []
    for name in published.list_weights():
        folder = published.FOLDER / name
        found, experiment, result = published_run(folder)
        rows.append(
            [
                name,
                f"{what(experiment)}",
                f"{data_words(experiment.data)}, {found.setup.train_images:,} images",
                f"{experiment.recipe} {changed_from_recipe(experiment)}".rstrip(),
                str(result.epochs),
                percent(result.test_error_pct.last),
                short_bytes((folder / published.FILE).stat().st_size),
            ]
        )
    if not rows:
        return "This version comes with none."
    head = [
        "name",
        "network",
        "trained on",
        "recipe and options",
        "epochs",
        "test error, %",
        "size",
    ]
    return markdown_table(head, rows)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except CommandError as error:
        sys.exit(f"weights: {error}")
