"""One block in every order at three settings: the figures of the README's first table."""

from scalednl.lab.bench.allocators import default_cells
from scalednl.lab.bench.blocks import block_work, checked_error, features, make_block
from scalednl.lab.bench.measure import Step, training_step
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.session import Session
from scalednl.lab.charts.cost import orders_chart
from scalednl.lab.console import print_table, short_bytes
from scalednl.lab.counting import bytes_kept
from scalednl.lab.records.bench import OrdersRecord, OrdersRow, OrdersSettings

COMPARED = (
    *("auto", "auto, lean", "associative", "associative, rows"),
    *("softmax fused", "softmax plain"),
)
MAPS = ((128, 128, 16), (32, 64, 32), (4, 128, 64))
"""Batch, channels, side"""
HEAD = ["setting, 4 heads", "method", "step, ms", "/ associative", "of floor", "glibc's, ms"]
HEAD += ["faults", "kept", "/ associative", "error"]


def run(options: BenchOptions) -> OrdersRecord:
    """Measure, print, and keep."""
    session = Session("orders", options)
    repeats = options.runs(usual=9)
    rows: list[OrdersRow] = []
    for batch, channels, side in MAPS[:2] if options.quick else MAPS:
        with session.step(f"B{batch} C{channels} {side}x{side}"):
            rows += _rows(session, (batch, channels, side), repeats)
    print(
        f"Forward and backward of one block with batch norm, channels_last; median (quartiles) of "
        f"{repeats};\ntimes over the associative order in its faster shape; of floor: the least "
        "time that this\nmachine needs for the method's multiply-adds or bytes, over its time;\n"
        "glibc's: with the allocator's default settings, and the page faults of a step with them.\n"
    )
    print_table(HEAD, [_cells(row) for row in rows])
    settings = OrdersSettings(repeats, heads=4)
    record = OrdersRecord(**session.header(), settings=settings, rows=tuple(rows))
    session.finish(record, {"orders": orders_chart(record)})
    return record


def _rows(session: Session, shape: tuple[int, int, int], repeats: int) -> list[OrdersRow]:
    """Every method on one map: checked, counted, timed in turns."""
    (batch, channels, side), device = shape, session.device
    x, _ = features(batch, channels, side, device)
    blocks = {name: make_block(name, channels, device) for name in COMPARED}
    errors = {
        name: checked_error(block, x, f"{name} at {tuple(x.shape)}")
        for name, block in blocks.items()
    }
    kept = {name: bytes_kept(block, x) for name, block in blocks.items()}
    arguments = (*shape, device)
    both = session.timings_with_both(steps(*arguments), steps, *arguments, repeats=repeats)
    times = both.here
    best = min((times["associative"], times["associative, rows"]), key=lambda t: t.median_ms)
    return [
        OrdersRow(
            *(batch, channels, side, side, name),
            order=str(block.choice(x.shape)),
            time=times[name],
            time_over_associative=round(times[name].ratio(best), 4),
            bytes_kept=kept[name],
            bytes_kept_over_associative=round(kept[name] / kept["associative"], 4),
            error=errors[name],
            floor=session.limit.floor(block_work(block, x.shape), times[name]),
            time_default=both.default.get(name),
        )
        for name, block in blocks.items()
    ]


def steps(batch: int, channels: int, side: int, device: str) -> dict[str, Step]:
    """Forward and backward of every method on one map."""
    x, grad = features(batch, channels, side, device)
    return {name: training_step(make_block(name, channels, device), x, grad) for name in COMPARED}


def _cells(row: OrdersRow) -> list[str]:
    name = f"{row.method}: {row.order}" if row.method.startswith("auto") else row.method
    return [
        *(row.place, name, str(row.time), f"{row.time_over_associative:.3f}"),
        *("" if row.floor is None else str(row.floor), *default_cells(row.time_default)),
        *(short_bytes(row.bytes_kept), f"{row.bytes_kept_over_associative:.3f}"),
        f"{row.error:.0e}",
    ]
