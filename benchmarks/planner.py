"""What the planner picks, what would have been fastest, and what the difference costs.

Over a grid of shapes, in training and evaluation. The planner's two constants are then fitted to
the times, for devices that are not like the CPU that they came from.

python -m benchmarks.planner --quick
"""

from collections import Counter
from collections.abc import Sequence

import torch

from benchmarks.command import main
from benchmarks.goals import NEAR
from benchmarks.records import Fit, PlannerRecord, PlannerRow, PlannerShape, Repeats
from scalednl.blocks import NonLocal2d
from scalednl.lab.bench.blocks import block_work, checked_error, features
from scalednl.lab.bench.measure import Step, inference_step, timings, training_step
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.session import Session
from scalednl.lab.charts import Dot, Row, dot_chart
from scalednl.lab.console import print_table
from scalednl.lab.records.floor import Work
from scalednl.ops.costs import CPU, Constants
from scalednl.ops.planner import Choice, use_constants

MOVES = (8, 16, 32, 64, 128, 256, 512)
NARROWS = (16, 32, 64, 128)
SIDES = (7, 8, 14, 16, 28, 32, 56)
HEAD = ["shape", "mode", "picked", "fastest", "picked, ms", "fastest, ms", "regret"]
HEAD += ["of floor", "error"]


def run(options: BenchOptions) -> PlannerRecord:
    """Measure, print, and keep."""
    session = Session(PlannerRecord.KIND, options)
    repeats = options.runs(usual=11, quick=7)
    rows = []
    for shape in shapes(options.quick):
        with session.step(f"{shape}, {shape.mode}"):
            rows.append(_row(session, shape, repeats))
    print(f"One block with batch norm, channels_last; median (quartiles) of {repeats}.\n")
    print_table(HEAD, [_cells(row) for row in rows])
    picked = Counter(row.picked for row in rows)
    print("Picked: " + ", ".join(f"{name} {n} times" for name, n in picked.most_common()) + "\n")
    used, best = fit_of(rows, CPU), fitted(rows)
    print(f"Constants in use: {used}\nFitted to these times: {best}")
    if best != used:
        print(f"For this device: scalednl.ops.planner.use_constants({best.move}, {best.narrow})\n")
    record = PlannerRecord(
        **session.header(),
        settings=Repeats(repeats),
        rows=tuple(rows),
        used=used,
        fitted=best,
    )
    session.finish(record, {"planner": planner_chart(record)})
    return record


def shapes(quick: bool) -> list[PlannerShape]:
    """The grid: batch norm in every one, square maps."""
    if quick:
        grid = [(c, side, c, 4) for c in (32, 128) for side in (8, 16, 32)] + [(256, 14, 256, 4)]
    else:
        grid = [(c, side, c, 4) for c in (32, 64, 128, 256) for side in SIDES]
        grid += [(512, side, 512, 8) for side in (7, 14, 28)]
        grid += [(c, side, c // k, 4) for c, side in ((64, 32), (128, 16)) for k in (2, 4, 8)]
        grid += [(128, 16, 128, heads) for heads in (1, 8)]
    return [
        PlannerShape(_batch(sizes[0], sizes[1]), *sizes, training)
        for training in (True, False)
        for sizes in grid
    ]


def _batch(channels: int, side: int) -> int:
    """As many images as make a step long enough to time."""
    return max(1, min(64, 2**20 // (channels * side * side), 2**25 // channels**3))


def _row(session: Session, shape: PlannerShape, repeats: int) -> PlannerRow:
    device = session.device
    x, grad = features(shape.batch, shape.channels, shape.side, device)
    choices = [Choice("associative", False), Choice("gram", False)]
    choices += [Choice("gram", True)] if shape.training else []
    choices += [Choice("quadratic", False)] if shape.side <= 16 else []
    steps: dict[str, Step] = {}
    works: dict[str, Work] = {}
    error = 0.0
    for choice in choices:
        block = _block(shape, device)
        block.order = choice
        error = max(error, checked_error(block, x, f"{choice} at {shape}"))
        step = training_step(block, x, grad) if shape.training else inference_step(block, x)
        steps[str(choice)] = step
        works[str(choice)] = block_work(block, x.shape)
    times = timings(steps, repeats, device=device)
    picked = str(_block(shape, device).choice(x.shape))
    fastest = min(times, key=lambda name: times[name].median_ms)
    regret = round(times[picked].ratio(times[fastest]), 4)
    floors = {name: session.limit.floor(works[name], time) for name, time in times.items()}
    return PlannerRow(shape, picked, fastest, regret, error, times, floors)


def fitted(rows: Sequence[PlannerRow]) -> Fit:
    """The constants with the least mean regret at these shapes; of equal ones those of a CPU first.

    Found from the times that the record has: each pair only changes which of them is picked.
    """
    grid = [CPU, *(Constants(move, narrow) for move in MOVES for narrow in NARROWS)]
    fits = [fit_of(rows, constants) for constants in grid]
    return min(fits, key=lambda fit: fit.mean_regret)


def fit_of(rows: Sequence[PlannerRow], constants: Constants) -> Fit:
    """The regret of the planner with these constants."""
    before = use_constants(*constants)
    try:
        regrets = [_regret(row) for row in rows]
    finally:
        use_constants(*before)
    return Fit(*constants, round(sum(regrets) / len(regrets), 4), round(max(regrets), 4))


def _regret(row: PlannerRow) -> float:
    shape = row.shape
    sizes = (shape.batch, shape.channels, shape.side, shape.side)
    picked = row.times[str(_block(shape, "meta").choice(sizes))]
    return picked.median_ms / min(time.median_ms for time in row.times.values())


def _block(shape: PlannerShape, device: str) -> NonLocal2d:
    torch.manual_seed(0)
    block = NonLocal2d(shape.channels, heads=shape.heads, embed_channels=shape.embed, norm_init=1.0)
    return block.to(device).train(shape.training)


def _cells(row: PlannerRow) -> list[str]:
    return [
        *(str(row.shape), row.shape.mode, row.picked, row.fastest),
        *(str(row.times[row.picked]), str(row.times[row.fastest])),
        f"x{row.regret:.2f}" + ("" if row.regret <= NEAR else " <--"),
        str(row.floors[row.picked]) if row.floors else "",
        f"{row.error:.0e}",
    ]


def planner_chart(record: PlannerRecord) -> str:
    """The regret of every shape, one row per number of channels; the worst is written out."""
    rows = []
    for channels in sorted({row.shape.channels for row in record.rows}):
        columns = [_regrets(record.rows, channels, training) for training in (True, False)]
        rows.append(Row(f"{channels} channels, {len(columns[0])} shapes", "green", columns))
    return dot_chart(
        "The planner's pick: its time over the fastest order's",
        ["training", "evaluation"],
        rows,
        start=1,
        foot=f"1 is a perfect pick; the worst is written out. {record.where}, "
        f"median of {record.settings.repeats}.",
    )


def _regrets(rows: Sequence[PlannerRow], channels: int, training: bool) -> list[Dot]:
    mine = [r for r in rows if (r.shape.channels, r.shape.training) == (channels, training)]
    regrets = sorted((row.regret for row in mine), reverse=True)
    return [Dot(regret, f"x{regret:.2f}") for regret in regrets]


if __name__ == "__main__":
    main(run)
