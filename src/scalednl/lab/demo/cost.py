"""The demonstration's cost table: one block in every form, checked before it is timed."""

from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from scalednl.lab.bench.agreement import reference_block, require
from scalednl.lab.bench.blocks import features, make_block
from scalednl.lab.bench.measure import interleaved, relative_error, training_step
from scalednl.lab.charts.cost import three_digits
from scalednl.lab.counting import bytes_kept
from scalednl.lab.machine import core_seconds, share_waited
from scalednl.lab.records import origin
from scalednl.lab.records.bench import SCHEMA, BlocksRecord, BlocksRow, BlocksSettings
from scalednl.lab.records.methods import METHODS
from scalednl.lab.records.typed_json import write_record

CHANNELS, SIDE, BATCH, REPEATS = 64, 48, 2, 5
SHOWN = ("softmax plain", "softmax fused", "quadratic", "associative", "auto")


def measure_cost(out: Path, console: Console) -> None:
    """Print the table and keep it for the page."""
    since = core_seconds()
    rows = _measure()
    waited = share_waited(since)
    best = rows[-1]
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    for column in ("", "time", "ratio", "kept for backward", "error"):
        table.add_column(column, justify="right" if column else "left")
    for row in rows:
        table.add_row(
            f"[bold green]{row.method}[/]" if row is best else row.method,
            f"{three_digits(row.milliseconds)} ms",
            f"x{row.milliseconds / best.milliseconds:.1f}",
            f"{three_digits(row.bytes_kept / 1e6)} MB",
            f"{row.error:.0e}",
        )
    console.print(table)
    shape = f"{BATCH} x {CHANNELS} x {SIDE} x {SIDE}"
    record = BlocksRecord(
        schema=f"{SCHEMA}{BlocksRecord.KIND}.v1",
        origin=origin(torch.get_num_threads()),
        quick=True,
        settings=BlocksSettings(f"One block on {shape}, best of {REPEATS}", REPEATS),
        rows=tuple(rows),
        waited=waited,
    )
    if record.is_disturbed:
        console.print(f"[dim]The machine was busy: {record.disturbance}.[/]")
    write_record(out / "cost.json", record)


def _measure() -> list[BlocksRow]:
    x, grad = features(BATCH, CHANNELS, SIDE)
    blocks = {METHODS[name].label: make_block(name, CHANNELS) for name in SHOWN}
    with torch.no_grad():
        errors = {
            name: require(relative_error(block(x), reference_block(block, x)), name)
            for name, block in blocks.items()
        }
    steps = {name: training_step(block, x, grad) for name, block in blocks.items()}
    rounds = interleaved(steps, REPEATS, warm_up=1)
    best = {name: 1e3 * min(one[name].seconds for one in rounds) for name in steps}
    return [
        BlocksRow(name, best[name], bytes_kept(block, x), errors[name])
        for name, block in blocks.items()
    ]
