"""Table 3 on this machine: what three blocks add to a training step of PreResNet-56."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from scalednl.blocks import NonLocal2d
from scalednl.lab.bench.agreement import network_error, require, training_error
from scalednl.lab.bench.allocators import default_cells
from scalednl.lab.bench.measure import Step
from scalednl.lab.bench.networks import PLAIN, Variant, images, training_iteration
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.peak import peak_of
from scalednl.lab.bench.session import Session
from scalednl.lab.charts.cost import table3_chart
from scalednl.lab.console import print_table, short_bytes
from scalednl.lab.counting import bytes_kept, multiply_adds
from scalednl.lab.paper.tables import table3_ratio
from scalednl.lab.records.bench import Table3Record, Table3Row, Table3Settings
from scalednl.lab.records.floor import Floor, Work
from scalednl.lab.records.methods import MAIN_METHODS, METHODS
from scalednl.lab.records.timing import Timing

IN_THE_PAPER = {"softmax plain": "softmax", "associative": "scaled", "associative, rows": "scaled"}
HEAD = ["network", "heads", "step, ms", "x", "paper x", "of floor", "glibc's, ms", "faults"]
HEAD += ["kept", "x", "peak", "x", "paper x", "error"]


@dataclass(frozen=True)
class Measured:
    """The costs of one network."""

    variant: Variant
    time: Timing
    kept: int
    peak: int
    error: float | None
    """None if there is no block"""
    floor: Floor | None = None
    default: Timing | None = None
    """With glibc's default settings"""


def run(options: BenchOptions, batch: int | None = None) -> Table3Record:
    """Measure, print, and keep."""
    session = Session("table3", options)
    batch = batch or (32 if options.quick else 64)
    repeats = options.runs(usual=9)
    variants = variants_of((1, 4) if options.quick else (1, 2, 4, 8))
    rows = table3_rows(measure(session, variants, batch, repeats))
    print(
        f"PreResNet-56, batch {batch}, channels_last: one training step, median (quartiles) of "
        f"{repeats} in ms;\nkept: bytes for backward; peak: growth of the process; "
        "x: over no blocks, the paper's beside it;\n"
        "of floor: the least time that this machine needs for the multiply-adds, or for what is "
        "kept, over the step's;\nglibc's: with the allocator's default settings, and the page "
        "faults of a step with them;\n"
        "error: of a block against the paper's equations, value and gradients.\n"
    )
    print_table(HEAD, [_cells(row) for row in rows])
    record = Table3Record(
        **session.header(), settings=Table3Settings(batch, repeats), rows=tuple(rows)
    )
    session.finish(record, {"table3": table3_chart(record)})
    return record


def variants_of(heads: tuple[int, ...]) -> list[Variant]:
    """No blocks first; auto has 8 heads in any case, and forms beside the main methods have 4."""
    found = [PLAIN]
    for method in (name for name in METHODS if name != "quadratic"):
        counts = heads if method in MAIN_METHODS else (4,)
        counts = (*counts, 8) if method == "auto" and 8 not in counts else counts
        found += [Variant(method, count) for count in counts]
    return found


def measure(
    session: Session, variants: Sequence[Variant], batch: int, repeats: int
) -> list[Measured]:
    """Agreement, bytes kept, peaks in processes of their own, and times in turns."""
    device = session.device
    with session.step(f"agreement of {len(variants)} networks with the paper's equations"):
        errors = [_error(variant, device) if variant.heads else None for variant in variants]
    with session.step("memory, one process per network"):
        x, _ = images(batch, device)
        kept = [bytes_kept(variant.network(device), x) for variant in variants]
        peaks = [
            peak_of(training_iteration, variant, batch, device, device=device).bytes
            for variant in variants
        ]
    with session.step(f"{repeats} training steps of each, in turns"):
        counted = [multiply_adds(training_iteration(v, batch, device)) for v in variants]
        arguments = (tuple(variants), batch, device)
        both = session.timings_with_both(steps(*arguments), steps, *arguments, repeats=repeats)
    columns = zip(variants, both.here.values(), kept, peaks, errors, strict=True)
    floors = [
        session.limit.floor(Work(count, 2 * size), time)
        for count, size, time in zip(counted, kept, both.here.values(), strict=True)
    ]
    return [
        Measured(*values, floor, both.default.get(str(values[0])))
        for values, floor in zip(columns, floors, strict=True)
    ]


def steps(variants: Sequence[Variant], batch: int, device: str) -> dict[str, Step]:
    """One training step of every network."""
    return {str(v): training_iteration(v, batch, device) for v in variants}


def _error(variant: Variant, device: str) -> float:
    """The block's float32 error in value and gradient; the network must agree in float64 too."""
    network = variant.network(device)
    require(network_error(network, *images(2, device)), str(variant), tolerance=1e-8)
    block = next(module for module in network.modules() if isinstance(module, NonLocal2d))
    x, grad = (
        torch.randn(2, block.channels, 16, 16, device=device).to(memory_format=torch.channels_last)
        for _ in range(2)
    )
    return require(training_error(block, x.requires_grad_(), grad), str(variant))


def table3_rows(measured: Sequence[Measured]) -> list[Table3Row]:
    """The rows of the record, with ratios to the first network and those of the paper."""
    plain = measured[0]
    return [
        Table3Row(
            method=one.variant.method,
            heads=one.variant.heads,
            train_step=one.time,
            train_step_ratio=round(one.time.ratio(plain.time), 4),
            paper_train_step_ratio=_printed(one.variant, "train_step_ms"),
            bytes_kept=one.kept,
            bytes_kept_ratio=round(one.kept / plain.kept, 4),
            peak_memory_bytes=one.peak,
            peak_memory_ratio=round(one.peak / plain.peak, 4),
            paper_memory_ratio=_printed(one.variant, "memory_mb"),
            error=one.error,
            floor=one.floor,
            train_step_default=one.default,
        )
        for one in measured
    ]


def _printed(variant: Variant, column: str) -> float | None:
    """The paper's ratio; it has plain softmax and the associative form, to 4 heads."""
    attention = IN_THE_PAPER.get(variant.method)
    return None if attention is None else table3_ratio(attention, column, variant.heads)


def _cells(row: Table3Row) -> list[str]:
    return [
        row.method,
        str(row.heads or ""),
        str(row.train_step),
        f"x{row.train_step_ratio:.2f}",
        _ratio(row.paper_train_step_ratio),
        "" if row.floor is None else str(row.floor),
        *default_cells(row.train_step_default),
        short_bytes(row.bytes_kept),
        f"x{row.bytes_kept_ratio:.3f}",
        short_bytes(row.peak_memory_bytes),
        f"x{row.peak_memory_ratio:.2f}",
        _ratio(row.paper_memory_ratio),
        "" if row.error is None else f"{row.error:.0e}",
    ]


def _ratio(value: float | None) -> str:
    return "" if value is None else f"x{value:.2f}"
