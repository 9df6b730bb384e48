"""The demonstration's cost table: one block in every form, checked before it is timed."""

from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from scalednl.blocks import NonLocal2d
from scalednl.files import write_json
from scalednl.lab.bench.agreement import reference_block
from scalednl.lab.bench.measure import fastest, interleaved, relative_error, training_step
from scalednl.lab.counting import bytes_kept
from scalednl.lab.records import origin

CHANNELS, SIDE, BATCH, REPEATS = 64, 48, 2, 5
TOLERANCE = 1e-4
CONTENDERS: dict[str, dict[str, str]] = {
    "softmax plain": {"attention": "softmax", "order": "quadratic"},
    "softmax fused": {"attention": "softmax", "order": "fused"},
    "scaled quadratic": {"order": "quadratic"},
    "scaled associative": {"order": "associative"},
    "scaled auto": {"order": "auto"},
}


def measure_cost(out: Path, console: Console) -> None:
    """Print the table and keep it for the page."""
    rows = _measure()
    best = rows[-1]["milliseconds"]
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    for column in ("", "time", "ratio", "kept for backward", "error"):
        table.add_column(column, justify="right" if column else "left")
    for row in rows:
        name = row["method"]
        table.add_row(
            f"[bold green]{name}[/]" if name == "scaled auto" else name,
            f"{row['milliseconds']:.1f} ms",
            f"x{row['milliseconds'] / best:.1f}",
            f"{row['bytes_kept'] / 2**20:.1f} MiB",
            f"{row['error']:.0e}",
        )
    console.print(table)
    shape = f"{BATCH} x {CHANNELS} x {SIDE} x {SIDE}"
    record = {
        "schema": "scalednl.bench.blocks.v1",
        "origin": origin(torch.get_num_threads()).as_dict(),
        "device": "cpu",
        "quick": True,
        "settings": {"words": f"One block on {shape}, best of {REPEATS}", "repeats": REPEATS},
        "rows": rows,
    }
    write_json(out / "cost.json", record)


def _measure() -> list[dict[str, Any]]:
    torch.manual_seed(0)
    x = torch.randn(BATCH, CHANNELS, SIDE, SIDE).to(memory_format=torch.channels_last)
    x.requires_grad_()
    grad = torch.randn_like(x)
    weights = NonLocal2d(CHANNELS, norm_init=1.0).state_dict()
    blocks = {}
    for name, options in CONTENDERS.items():
        blocks[name] = NonLocal2d(CHANNELS, **options)  # type: ignore[arg-type]
        blocks[name].load_state_dict(weights)
    errors = {name: _error(block, x) for name, block in blocks.items()}
    worst = max(errors.values())
    if worst > TOLERANCE:
        raise RuntimeError(f"the orders disagree by {worst:.1e}: this is a bug, please report it")
    steps = {name: training_step(block, x, grad) for name, block in blocks.items()}
    times = fastest(interleaved(steps, REPEATS, warm_up=1))
    return [
        {
            "method": name,
            "milliseconds": times[name] * 1e3,
            "bytes_kept": bytes_kept(block, x),
            "error": errors[name],
        }
        for name, block in blocks.items()
    ]


@torch.no_grad()
def _error(block: NonLocal2d, x: Tensor) -> float:
    """How far the block is from the paper's equations."""
    return relative_error(block(x), reference_block(block, x))
