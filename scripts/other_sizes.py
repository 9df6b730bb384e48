"""Test errors at other image sizes than that of training.

python -m scripts.other_sizes RUNS

tests every run of the plan in the folder RUNS that has weights (PreResNet-20 on CIFAR-10, base
view), at several sizes, scaled blocks with and without `reference_pixels`, and adds the errors to
results/lite/other_sizes.json; `make results` then writes the table of docs/masks-and-keys.md.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import torch

from scalednl.lab.paper.evidence import evidence_lines
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.records.origin import Origin, origin
from scalednl.lab.records.run import RunFolder
from scalednl.lab.records.typed_json import read_record, write_record
from scalednl.lab.report.aggregate import describe_block
from scalednl.lab.report.formatting import spread_of
from scalednl.lab.report.markdown import markdown_table
from scalednl.lab.training.evaluate import evaluate_source

RECORD = Path(__file__).parents[1] / "results" / "lite" / "other_sizes.json"
SIZES = (32, 40, 48, 64)
TRAINED_PIXELS = 16 * 16
"""Pixels of the blocks' maps, in stage 2, at the 32 px of training"""


@dataclass(frozen=True)
class Tested:
    """One network at one size."""

    run: str
    blocks: str
    size: int
    reference_pixels: int | None
    error_pct: float


@dataclass(frozen=True)
class OtherSizes:
    """All that were tested."""

    tested: list[Tested]
    origin: Origin = field(default_factory=Origin)
    """The origin of the sizes tested last"""


def main(arguments: Sequence[str]) -> None:
    """Test what is not in the record yet, and write it after every network."""
    if len(arguments) != 1:
        sys.exit(__doc__)
    found = {(one.run, one.size, one.reference_pixels): one for one in recorded()}
    for path in sorted(Path(arguments[0]).iterdir()):
        before = len(found)
        for one in _tests(path, done=set(found)):
            found[one.run, one.size, one.reference_pixels] = one
            print(f"{one.run}: {one.error_pct:.2f} % at {one.size} px, {one.reference_pixels}")
        if len(found) == before:
            continue
        order = sorted(found.values(), key=lambda t: (t.run, t.size, t.reference_pixels or 0))
        write_record(RECORD, OtherSizes(order, origin(torch.get_num_threads())))


def recorded() -> list[Tested]:
    """What the record has."""
    return read_record(RECORD, OtherSizes).tested if RECORD.is_file() else []


def _tests(path: Path, done: set[tuple[str, int, int | None]]) -> Iterator[Tested]:
    folder = RunFolder(path)
    if not folder.weights.is_file():
        return
    experiment = folder.read_config()[0]
    if experiment.cell not in _declared() or experiment.block.view != "base":
        return
    scaled = experiment.blocks > 0 and experiment.block.attention == "scaled"
    for size in SIZES:
        for pixels in (None, TRAINED_PIXELS) if scaled else (None,):
            if (path.name, size, pixels) not in done:
                error = evaluate_source(path, size=size, reference_pixels=pixels).test_error_pct
                yield Tested(path.name, describe_block(experiment), size, pixels, error)


@cache
def _declared() -> set[str]:
    """The cells of the plan that train PreResNet-20 on CIFAR-10."""
    trained = (one for line in evidence_lines() for one in line.artefact.trainings(SCALES["lite"]))
    return {e.cell for _, e in trained if (e.data, e.model) == ("cifar10", "preresnet20")}


def sizes_table() -> str:
    """Mean ± standard deviation over seeds, by network and size."""
    rows: dict[tuple[str, int | None], dict[int, list[float]]] = {}
    for one in recorded():
        errors = rows.setdefault((one.blocks, one.reference_pixels), {})
        errors.setdefault(one.size, []).append(one.error_pct)
    if not rows:
        return "No network has been tested yet."
    lines = []
    for (blocks, pixels), errors in rows.items():
        name = blocks if pixels is None else f"{blocks}, reference_pixels={pixels}"
        lines.append([name, *(spread_of(errors.get(size, [])) for size in SIZES)])
    return markdown_table(["PreResNet-20 with", *(f"{size} px" for size in SIZES)], lines)


if __name__ == "__main__":
    main(sys.argv[1:])
