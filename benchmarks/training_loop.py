"""The training loop against a bare one: what everything around forward and backward costs.

Augmentation, learning rate, accounting and looking at the loss together, in images per second.

python -m benchmarks.training_loop --quick
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.command import main
from benchmarks.records import LoopRecord, LoopRow, Repeats
from scalednl.errors import CommandError
from scalednl.lab.bench.agreement import TOLERANCE
from scalednl.lab.bench.allocators import default_cells
from scalednl.lab.bench.measure import Step, relative_error
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.session import Session
from scalednl.lab.config import Experiment, RunSettings
from scalednl.lab.console import print_table
from scalednl.lab.counting import bytes_kept, multiply_adds
from scalednl.lab.data import ImageData, Split
from scalednl.lab.data.batches import Batch
from scalednl.lab.recipes import find_recipe
from scalednl.lab.records.floor import Work
from scalednl.lab.signals import StopRequest
from scalednl.lab.training.devices import make_fabric
from scalednl.lab.training.display import Display
from scalednl.lab.training.loop import Callback, Trainer
from scalednl.lab.training.schedule import learning_rate
from scalednl.lab.training.setup import initial_model

RECIPES = ("cifar10-preresnet20-plain", "cifar10-preresnet20-scaled", "cifar10-preresnet56-scaled")
CLASSES = 10
HEAD = ["recipe", "bare", "train", "images/s", "train / bare speed", "of floor"]
HEAD += ["train, glibc's", "faults", "kept / glibc's speed", "error"]


def run(options: BenchOptions) -> LoopRecord:
    """Measure, print, and keep."""
    session = Session(LoopRecord.KIND, options)
    repeats, steps = options.runs(usual=9), 2 if options.quick else 4
    rows = []
    for name in RECIPES[:2] if options.quick else RECIPES:
        with session.step(f"{name}: {repeats} x {steps} steps in both loops, in turns"):
            rows.append(measure(session, name, steps, repeats))
    print(
        f"{steps} training steps, median (quartiles) of {repeats} in ms, channels_last;\n"
        "bare: forward, backward and SGD on one fixed batch; train: the loop of `scalednl train`;\n"
        "of floor: the least time that this machine needs for the multiply-adds, over train's;\n"
        "glibc's: with the allocator's default settings, and the page faults of a step with them;\n"
        "error: of the weights after one step of each on the same batch.\n"
    )
    print_table(HEAD, [_cells(row) for row in rows])
    record = LoopRecord(**session.header(), settings=Repeats(repeats), rows=tuple(rows))
    session.finish(record, {})
    return record


def measure(session: Session, name: str, steps: int, repeats: int) -> LoopRow:
    """Both loops of a recipe, with both settings of the allocator, in turns."""
    recipe, device = find_recipe(name), session.device
    error = _error(recipe, device)
    if not error <= TOLERANCE:
        raise CommandError(
            f"{name}: after one step the two loops' weights differ by {error:.1e}, so they "
            "are not timed: this is a bug, please report it"
        )
    arguments = (name, steps, device)
    both = session.timings_with_both(loops(*arguments), loops, *arguments, repeats=repeats)
    times = both.here
    work = _work(recipe, steps, device)
    return LoopRow(
        *(name, recipe.batch, steps),
        images_per_second=steps * recipe.batch / times["train"].median_ms * 1e3,
        speed_over_bare=times["bare"].ratio(times["train"]),
        error=error,
        bare=times["bare"],
        train=times["train"],
        floor=session.limit.floor(work, times["train"]),
        train_default=both.default.get("train"),
    )


def loops(name: str, steps: int, device: str) -> dict[str, Step]:
    """So many steps of a recipe in a bare loop and in that of `scalednl train`."""
    recipe = find_recipe(name)
    return {"bare": _bare(recipe, steps, device), "train": _complete(recipe, steps, device)}


def _work(recipe: Experiment, steps: int, device: str) -> Work:
    """Counted on one step: multiply-adds, and what is kept for backward, written and read."""
    trainer = _trainer(recipe, 1, device)
    batch = next(trainer.batches.epoch(0))
    kept = bytes_kept(trainer.network.train(), batch.images)
    counted = multiply_adds(_bare_step(recipe, trainer, batch))
    return Work(steps * counted, steps * 2 * kept)


def _cells(row: LoopRow) -> list[str]:
    return [
        *(row.recipe, str(row.bare), str(row.train), f"{row.images_per_second:,.0f}"),
        *(f"{row.speed_over_bare:.3f}", "" if row.floor is None else str(row.floor)),
        *default_cells(row.train_default),
        "" if row.speed_over_default is None else f"{row.speed_over_default:.3f}",
        f"{row.error:.0e}",
    ]


def _trainer(recipe: Experiment, steps: int, device: str) -> Trainer:
    """The loop over random images of CIFAR's size, as many as the steps need."""
    draw, count = np.random.default_rng(0), steps * recipe.batch
    images = draw.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    split = Split(images, draw.integers(0, CLASSES, count))
    names = [str(label) for label in range(CLASSES)]
    data = ImageData("random", split, split, names, (0.5,) * 3, (0.25,) * 3)
    on_gpu = device.startswith("cuda")
    fabric = make_fabric(RunSettings(device="cuda" if on_gpu else "cpu", tensorboard=False))
    return Trainer(recipe, data, initial_model(recipe, CLASSES), fabric)


def _complete(recipe: Experiment, steps: int, device: str) -> Callable[[], None]:
    """An epoch of the loop, bookkeeping and all."""
    trainer = _trainer(recipe, steps, device)
    display = Display(recipe.epochs, quiet=True)

    def step() -> None:
        trainer.state.begin_epoch()
        trainer.train_epoch(Callback(), StopRequest(), display)

    return step


def _bare(recipe: Experiment, steps: int, device: str) -> Callable[[], None]:
    """The same number of steps on one batch that is in memory already."""
    trainer = _trainer(recipe, 1, device)
    batch = next(trainer.batches.epoch(0))
    step = _bare_step(recipe, trainer, batch)

    def several() -> None:
        for _ in range(steps):
            step()

    return several


def _bare_step(recipe: Experiment, trainer: Trainer, batch: Batch) -> Callable[[], None]:
    network = trainer.network.train()
    optimizer = torch.optim.SGD(
        network.parameters(),
        learning_rate(recipe, epoch=0, step=0, steps=len(trainer.batches)),
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
    )

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(network(batch.images), batch.labels).backward()
        optimizer.step()

    return step


def _error(recipe: Experiment, device: str) -> float:
    """How far the weights of both are apart after one step on the same batch."""
    small = replace(recipe, batch=16)
    ours, bare = (_trainer(small, 1, device) for _ in range(2))
    batch = next(ours.batches.epoch(0))
    ours.network.train()
    ours.train_step(batch)
    _bare_step(small, bare, batch)()
    pairs = zip(ours.network.parameters(), bare.network.parameters(), strict=True)
    return max(relative_error(one, two) for one, two in pairs if two.any())


if __name__ == "__main__":
    main(run)
