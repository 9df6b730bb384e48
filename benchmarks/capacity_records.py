"""Records of `benchmarks.capacity`, its plan, and what theory expects. Imports no torch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Literal

from scalednl.errors import CommandError
from scalednl.lab.records.origin import Origin
from scalednl.lab.records.typed_json import read_record, write_record

FOLDER = Path(__file__).parents[1] / "results" / "capacity"
HEADS = FOLDER / "heads"
"""A later plan: the same channels in several heads"""
SCHEMA = 1
Attention = Literal["softmax", "scaled", "centred"]
"""centred: scaled with `center="keys"`"""
Readout = Literal["linear", "hidden"]
"""The classifier behind the block: linear, or with a hidden layer"""


@dataclass(frozen=True)
class Task:
    """The maps, and how a network is trained and tested on them."""

    keys: int = 32
    """Different keys that a pair can have"""
    side: int = 6
    """Height and width of a map, in pixels"""
    channels: int = 64
    batch: int = 128
    steps: int = 1500
    lr: float = 0.003
    test_maps: int = 10_000


@dataclass(frozen=True)
class Cell:
    """One training: an attention and what follows it, K pairs per map, d channels, a seed."""

    readout: Readout
    attention: Attention
    pairs: int
    width: int
    """Channels of all heads together"""
    seed: int
    heads: int = 1

    @property
    def name(self) -> str:
        """The name of its record."""
        heads = "" if self.heads == 1 else f"-heads{self.heads}"
        what = f"{self.readout}-{self.attention}-pairs{self.pairs}-width{self.width}"
        return f"{what}{heads}-seed{self.seed}"


@dataclass(frozen=True)
class CapacityPlan:
    """All trainings, declared before the first."""

    task: Task
    readouts: tuple[Readout, ...]
    attentions: tuple[Attention, ...]
    pairs: tuple[int, ...]
    widths: tuple[int, ...]
    seeds: tuple[int, ...]
    heads: tuple[int, ...] = (1,)
    schema: int = SCHEMA

    def cells(self) -> Iterator[Cell]:
        """Every training, one seed after the other, so that it can stop anywhere."""
        options = self.readouts, self.widths, self.pairs, self.attentions, self.heads
        for seed, readout, width, pairs, attention, heads in product(self.seeds, *options):
            yield Cell(readout, attention, pairs, width, seed, heads)


@dataclass(frozen=True)
class CapacityRun:
    """What came out of one training."""

    cell: Cell
    task: Task
    error_pct: float
    train_loss: float
    """Mean over the last hundred steps"""
    seconds: float
    """Processor time"""
    origin: Origin = field(default_factory=Origin)
    schema: int = SCHEMA


def read_plan(folder: Path) -> CapacityPlan:
    """The declared plan."""
    try:
        return read_record(folder / "plan.json", CapacityPlan, schema=SCHEMA)
    except FileNotFoundError:
        raise CommandError(f"{folder} has no plan.json that declares the runs") from None


def record_path(folder: Path, cell: Cell) -> Path:
    """The file of a training."""
    return folder / "runs" / f"{cell.name}.json"


def read_runs(folder: Path, plan: CapacityPlan) -> list[CapacityRun]:
    """The records of the plan that are there; one of another task is an error."""
    found = []
    for cell in plan.cells():
        path = record_path(folder, cell)
        if path.is_file():
            run = read_record(path, CapacityRun, schema=SCHEMA)
            if (run.task, run.cell) != (plan.task, cell):
                raise CommandError(f"{path} is of another plan: remove it, or restore plan.json")
            found.append(run)
    return found


def write_run(folder: Path, run: CapacityRun) -> None:
    """Write the record of a training."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    write_record(record_path(folder, run.cell), run)


def expected_error_pct(
    keys: int, pairs: int, width: int, readout: Readout, heads: int = 1
) -> float:
    """The error of linear attention of `width` channels in all heads together, by theory.

    A linear classifier sees M_cc v_c + sum_j M_cj v_j: the cue's own value, and those of the other
    pairs. M = theta^T phi over all V keys has rank d, in however many heads. With ones on its
    diagonal its sum of squares is then at least V^2 / d, and the mean square beside the diagonal at
    least (V - d) / (d (V - 1)). Values are +1 or -1, so the K - 1 other pairs add noise of K - 1
    times that variance, taken as Gaussian.

    A hidden layer can use that g carries the key a second time, and compare it with the cue: the
    same factor once more. A head has d / heads channels for each of the two, and the sum over heads
    averages their noise. That is an estimate and no bound.
    """
    square = _mean_square(keys, width)
    if readout == "hidden":
        square = _mean_square(keys, width / heads) ** 2 / heads
    variance = (pairs - 1) * square
    return 50 * math.erfc(1 / math.sqrt(2 * variance)) if variance else 0.0


def _mean_square(keys: int, rank: float) -> float:
    """The least mean square beside the diagonal of ones."""
    return max(0.0, keys - rank) / (rank * (keys - 1))
