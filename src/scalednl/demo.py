"""The showcase behind `scalednl demo`: what the block plans, computes, costs and can do."""

import time

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from scalednl.bench.agreement import reference_block
from scalednl.bench.measure import fastest, interleaved, relative_error, training_step
from scalednl.blocks import NonLocal2d
from scalednl.counting import bytes_kept
from scalednl.ops.moments import Moments

CHANNELS, SIDE, BATCH, REPEATS = 64, 48, 2, 5
TILE, IMAGE = 256, 1024
TOLERANCE = 1e-4

CONTENDERS: dict[str, dict[str, str]] = {
    "softmax plain": {"attention": "softmax", "order": "quadratic"},
    "softmax fused": {"attention": "softmax", "order": "fused"},
    "scaled quadratic": {"order": "quadratic"},
    "scaled associative": {"order": "associative"},
    "scaled auto": {"order": "auto"},
}


def run(threads: int | None = None) -> None:
    """Print the showcase."""
    if threads is not None:
        torch.set_num_threads(threads)
    torch.manual_seed(0)
    console = Console(highlight=False)
    start = time.perf_counter()
    console.print("[bold]1. The plan[/]  Which order of multiplication, and why:\n")
    console.print(str(NonLocal2d(CHANNELS).plan((BATCH, CHANNELS, SIDE, SIDE))), soft_wrap=True)
    console.print(
        f"\n[bold]2. The cost[/]  Forward and backward of {BATCH} x {CHANNELS} x {SIDE} x {SIDE}, "
        f"best of {REPEATS}, {torch.get_num_threads()} threads:\n"
    )
    console.print(_costs())
    console.print("\n  kept: bytes for backward; error: against the literal equations.\n")
    console.print(
        f"[bold]3. Never whole[/]  Global attention over {IMAGE} x {IMAGE} pixels, by tiles of "
        f"{TILE} x {TILE}:\n"
    )
    console.print(_tiles())
    took = time.perf_counter() - start
    console.print(f"\n[dim]{took:.0f} s. Next: .venv/bin/scalednl train pairs-scaled; README.md[/]")


def _costs() -> Table:
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
    best = times["scaled auto"]
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    for column in ("", "time", "ratio", "kept", "error"):
        table.add_column(column, justify="left" if not column else "right")
    for name, block in blocks.items():
        table.add_row(
            f"[bold green]{name}[/]" if name == "scaled auto" else name,
            f"{times[name] * 1e3:.1f} ms",
            f"x{times[name] / best:.1f}",
            f"{bytes_kept(block, x) / 2**20:.1f} MiB",
            f"{errors[name]:.0e}",
        )
    return table


@torch.no_grad()
def _error(block: NonLocal2d, x: Tensor) -> float:
    """How far the block is from the paper's equations."""
    return relative_error(block(x), reference_block(block, x))


@torch.no_grad()
def _tiles() -> str:
    block = NonLocal2d(CHANNELS, norm_init=1.0).eval()
    corners = [(r, c) for r in range(0, IMAGE, TILE) for c in range(0, IMAGE, TILE)]
    start = time.perf_counter()
    moments = Moments()
    for corner in corners:
        moments.update(_tile(*corner))
    seen = time.perf_counter() - start
    z = torch.stack([block.apply_moments(_tile(*corner), moments)[0] for corner in corners])
    took = time.perf_counter() - start
    whole = block(torch.cat([_tile(*corner) for corner in corners], dim=3))
    error = relative_error(torch.cat(list(z), dim=2), whole[0])
    state = CHANNELS * CHANNELS * 4 / 2**10
    softmax = IMAGE**4 * 4 / 2**40
    return (
        f"  {len(corners)} tiles seen in {seen:.1f} s, transformed in {took - seen:.1f} s; "
        f"{state:.0f} KiB kept between the passes.\n"
        f"  Difference from the whole image at once: {error:.0e}.\n"
        f"  One softmax map of it would take {softmax:.0f} TiB."
    )


def _tile(row: int, column: int) -> Tensor:
    """The tile of a made-up image whose upper left corner is at (row, column)."""
    generator = torch.Generator().manual_seed(row * IMAGE + column)
    return torch.randn(1, CHANNELS, TILE, TILE, generator=generator)
