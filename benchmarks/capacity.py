"""How many pairs an attention holds: `recall` without pictures.

python -m benchmarks.capacity

trains what is missing of the plan in results/capacity/plan.json, one record per training, less than
ten seconds of processor time each. It can be interrupted: the same command resumes, and repeats
only the training that was cut off. `--seeds 0 1` in one process and `--seeds 2 3 4` in another
share the work. `--out results/capacity/heads` trains a later plan, in which the channels are cut
into heads. `make results` then writes the figure and tables of docs/capacity.md.

In a map of 6 x 6 pixels, K pixels hold a pair: one of 32 keys and one of two values, all keys
different. One more pixel is a cue, which names one of the K keys; the others are empty. The class
is the value stored under that key. The network is a 1x1 convolution with batch norm and ReLU, one
block of d channels, and a classifier at the cue's pixel: a linear one, or one with a hidden layer,
for the layers that follow a block in a network.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
import tyro
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn

from benchmarks.capacity_records import (
    FOLDER,
    CapacityRun,
    Cell,
    Task,
    read_plan,
    read_runs,
    write_run,
)
from scalednl import NonLocal2d
from scalednl.errors import CommandError, UsageError
from scalednl.files import writing_to
from scalednl.lab.allocator import keep_memory
from scalednl.lab.machine import use_threads
from scalednl.lab.records.origin import origin
from scalednl.lab.seeds import derive_seed

VALUES = 2
TEST_BATCH = 500
LAST = 100
"""Steps over which the training loss is averaged"""


@dataclass(frozen=True)
class Options:
    """What to train, and where the records are."""

    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = FOLDER
    """The folder with plan.json; records are written to its folder runs"""
    seeds: tuple[int, ...] = ()
    """Only these seeds of the plan; all if not given"""
    threads: int = 1


class Maps(NamedTuple):
    """A batch: maps, the pixel of each cue, and the class of each map."""

    x: Float[Tensor, "batch inputs side side"]
    cue: Int[Tensor, "batch"]
    label: Int[Tensor, "batch"]


def make_maps(task: Task, pairs: int, count: int, source: Generator) -> Maps:
    """Maps with a channel for every pair of key and value, then one for every cue."""
    pixels = task.side**2
    keys = torch.rand(count, task.keys, generator=source).argsort(1)[:, :pairs]
    values = torch.randint(VALUES, (count, pairs), generator=source)
    places = torch.rand(count, pixels, generator=source).argsort(1)[:, : pairs + 1]
    # Channels last, which 1x1 convolutions take less time for.
    x = torch.zeros(count, pixels, (VALUES + 1) * task.keys)
    image = torch.arange(count)
    x[image[:, None], places[:, :pairs], keys + task.keys * values] = 1
    x[image, places[:, pairs], VALUES * task.keys + keys[:, 0]] = 1
    return Maps(x.mT.unflatten(2, (task.side, task.side)), places[:, pairs], values[:, 0])


class RecallNetwork(nn.Module):
    """A 1x1 convolution, one block, and a classifier at the cue."""

    def __init__(self, task: Task, cell: Cell) -> None:
        super().__init__()
        inputs = (VALUES + 1) * task.keys
        self.stem = nn.Conv2d(inputs, task.channels, 1, bias=False)
        self.norm = nn.BatchNorm2d(task.channels)
        self.block = NonLocal2d(
            task.channels,
            attention="softmax" if cell.attention == "softmax" else "scaled",
            center="keys" if cell.attention == "centred" else None,
            heads=cell.heads,
            embed_channels=cell.width,
            norm_init=1.0,
        )
        width = task.channels
        hidden = [nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        last = nn.Linear(width, VALUES)
        self.classifier = nn.Sequential(*(hidden if cell.readout == "hidden" else []), last)

    def forward(self, maps: Maps) -> Float[Tensor, "batch values"]:
        """Scores of the values."""
        z = self.block(self.norm(self.stem(maps.x)).relu())
        # Pixels before channels, as z is stored, so that its gradient is stored alike: with the
        # other order, backward of batch norm takes five times as long.
        pixels = z.permute(0, 2, 3, 1).flatten(1, 2)
        return self.classifier(pixels[torch.arange(len(z)), maps.cue])


def train(task: Task, cell: Cell) -> CapacityRun:
    """Train a network on new maps in every step, and test it on others."""
    start = time.process_time()
    torch.manual_seed(derive_seed(cell.seed, "capacity", "init"))
    source = Generator().manual_seed(derive_seed(cell.seed, "capacity", "maps"))
    network = RecallNetwork(task, cell).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(network.parameters(), task.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, task.lr, task.steps)
    losses = []
    for _ in range(task.steps):
        maps = make_maps(task, cell.pairs, task.batch, source)
        loss = F.cross_entropy(network(maps), maps.label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    error = error_pct(network.eval(), task, cell.pairs)
    last = losses[-LAST:]
    seconds = time.process_time() - start
    threads = torch.get_num_threads()
    return CapacityRun(cell, task, error, sum(last) / len(last), seconds, origin(threads))


@torch.no_grad()
def error_pct(network: nn.Module, task: Task, pairs: int) -> float:
    """Percent of wrong classes on test maps, which are the same for every seed."""
    source = Generator().manual_seed(derive_seed(0, "capacity", "test"))
    wrong = 0
    for first in range(0, task.test_maps, TEST_BATCH):
        maps = make_maps(task, pairs, min(TEST_BATCH, task.test_maps - first), source)
        wrong += int((network(maps).argmax(1) != maps.label).sum())
    return 100 * wrong / task.test_maps


def missing(folder: Path, seeds: Sequence[int]) -> list[Cell]:
    """The trainings of the plan without a record."""
    plan = read_plan(folder)
    unknown = set(seeds) - set(plan.seeds)
    if unknown:
        raise UsageError(
            f"--seeds {min(unknown)} is not declared in {folder / 'plan.json'}: it has "
            f"{', '.join(map(str, plan.seeds))}"
        )
    done = {run.cell for run in read_runs(folder, plan)}
    return [c for c in plan.cells() if c not in done and c.seed in (seeds or plan.seeds)]


def main(options: Options) -> None:
    """Train everything that is missing."""
    use_threads(options.threads)
    keep_memory()
    task, cells = read_plan(options.out).task, missing(options.out, options.seeds)
    for number, cell in enumerate(cells, start=1):
        run = train(task, cell)
        with writing_to(options.out):
            write_run(options.out, run)
        print(
            f"{number}/{len(cells)}  {cell.name}: error {run.error_pct:.2f} %, "
            f"{run.seconds:.0f} s of processor time",
            flush=True,
        )
    print(f"{len(cells)} trainings; no other is missing" if cells else "nothing is missing")


if __name__ == "__main__":
    try:
        main(tyro.cli(Options, prog="python -m benchmarks.capacity", description=__doc__))
    except CommandError as error:
        sys.exit(f"capacity: {error}")
    except KeyboardInterrupt:
        print("capacity: interrupted; the same command resumes", file=sys.stderr)
        sys.exit(130)
