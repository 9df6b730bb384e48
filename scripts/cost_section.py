"""What the block costs, for the README and docs/the-block.md, from the newest stored records.

`make results` writes it, and draws the charts of these records again.
"""

import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks.goals import NEAR
from benchmarks.records import ALL_KINDS, LoopRecord, PlannerRecord
from scalednl.errors import CommandError
from scalednl.lab.charts.cost import draw
from scalednl.lab.records.bench import (
    BenchRecord,
    OrdersRecord,
    OrdersRow,
    ScalingRecord,
    Table3Record,
    find_bench_records,
    read_bench_record,
)
from scalednl.lab.records.timing import Timing
from scalednl.lab.report.cost_claims import judge_costs
from scalednl.lab.report.markdown import markdown_table

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
NAMES = {
    "softmax plain": "softmax, plain",
    "softmax fused": "softmax, fused",
    "associative": "scaled, associative (the paper)",
    "auto": "scaled, auto",
    "auto, lean": 'scaled, memory="lean"',
}
METHOD_WORDS = {**NAMES, "associative, rows": "scaled, associative, by products on rows"}
Record = TypeVar("Record", bound=BenchRecord)


def newest(kind: type[Record]) -> Record:
    """The newest full record of a benchmark."""
    records, damaged = find_bench_records([RESULTS], {kind.KIND: ALL_KINDS[kind.KIND]})
    if damaged:
        raise CommandError("; ".join(damaged))
    for record in records:
        if isinstance(record, kind) and not record.quick:
            return record
    raise CommandError(f"{RESULTS.name} has no full record of {kind.KIND}")


def busy_records() -> list[str]:
    """A sentence per published record that was made on a busy machine."""
    kinds: tuple[type[BenchRecord], ...] = (
        *(OrdersRecord, Table3Record, ScalingRecord),
        *(LoopRecord, PlannerRecord),
    )
    return [
        f"{record.KIND}: {record.disturbance}; measure again before you publish it"
        for record in (newest(kind) for kind in kinds)
        if record.is_disturbed
    ]


def charts() -> dict[Path, str]:
    """The charts of the newest records, with their files."""
    found = [newest(kind) for kind in (OrdersRecord, Table3Record, ScalingRecord)]
    return {RESULTS / _chart(record): draw(record) for record in found}


def _chart(record: BenchRecord) -> str:
    """The name of the file with a record's chart: the record's own with another ending."""
    files = RESULTS.glob(f"{record.KIND}_*.json")
    (file,) = (path for path in files if read_bench_record(path, ALL_KINDS) == record)
    return file.with_suffix(".svg").name


def readme_section() -> str:
    """The README's section."""
    orders, table3, scaling = newest(OrdersRecord), newest(Table3Record), newest(ScalingRecord)
    auto = _of(orders, "auto")
    x = {row.method: f"x{row.train_step_ratio:.2f}" for row in table3.rows if row.heads == 4}
    side = {one.method: f"{one.side}x{one.side}" for one in scaling.largest}
    points = [
        f"One block (batch, channels, map: {_joined([row.place for row in auto])}) takes "
        f"{_figures(row.time_over_associative for row in auto)} of the time, and "
        f"{_figures(row.bytes_kept_over_associative for row in auto)} of the bytes, of the best "
        f"associative form, {_figures(_over(orders, 'softmax fused'), 3)} of the time of fused "
        f"softmax, and {_figures(_over(orders, 'softmax plain'), 3)} of plain softmax (`scalednl "
        f"bench orders`).{_limit_words(auto)}",
        f"Three blocks of 4 heads cost PreResNet-56 {x['auto']} the time of a training step; "
        f"associative {x['associative']}, fused softmax {x['softmax fused']}, plain softmax "
        f"{x['softmax plain']} (`scalednl bench table3`).",
        f"Within {_gib(scaling)} GiB, a block of 64 channels trains on a map of {side['auto']}; "
        f"associative {side['associative']}, plain softmax {side['softmax plain']}, fused softmax "
        f"{_fused_side(scaling)} (`scalednl bench scaling`).",
    ]
    return "\n\n".join(
        [
            _picture(scaling, "benchmarks/results"),
            _wrapped(
                "The products of a non-local block may be multiplied in any order. The block "
                "computes one C x C matrix per image from `x x^T`, never forms an N x N map, and "
                f"can fold batch norm into it. Measured on {orders.where}, every method compared "
                f"with the paper's equations before it is timed{_allocator_words(orders)}:"
            ),
            "\n".join(_wrapped(point, "- ", "  ") for point in points),
        ]
    )


def page_section() -> str:
    """The tables of docs/the-block.md."""
    orders, table3, scaling = newest(OrdersRecord), newest(Table3Record), newest(ScalingRecord)
    return "\n\n".join(
        [
            _wrapped(
                f"The figures below are from {orders.where}, float32, channels_last, eager PyTorch"
                f"{_allocator_words(orders)}; their records are stored in "
                "[`benchmarks/results`](../benchmarks/results)."
            ),
            _picture(scaling, "../benchmarks/results"),
            _wrapped(
                "One block with batch norm and 4 heads, forward and backward, median of "
                f"{orders.settings.repeats}, the associative form in the faster of two shapes "
                "(`scalednl bench orders`):"
            ),
            _orders_table(orders),
            _lean_words(orders),
            _wrapped(
                f"Three blocks of 4 heads in PreResNet-56, a training step of "
                f"{table3.settings.batch} images, as multiples of the network without blocks "
                f"(`scalednl bench table3`, median of {table3.settings.repeats}; the paper "
                f"measured on a GPU). {_heads_words(table3)}"
            ),
            _table3_table(table3),
            _wrapped(f"{_largest_words(scaling)} {_planner_words()}"),
        ]
    )


def memory_section() -> str:
    """What keeping freed memory gave, for docs/the-block.md."""
    orders, table3, loop = newest(OrdersRecord), newest(Table3Record), newest(LoopRecord)
    rows = [
        [
            f"one block, {row.place}, {NAMES.get(row.method, row.method)}",
            *_both(row.time_default, row.time),
        ]
        for row in orders.rows
        if row.method in ("softmax plain", "associative", "auto") and row.time_default is not None
    ]
    rows += [
        [
            f"PreResNet-56, {METHOD_WORDS.get(row.method, row.method)}",
            *_both(default, row.train_step),
        ]
        for row in table3.rows
        if (default := row.train_step_default) is not None and row.heads in (0, 4)
    ]
    rows += [
        [f"scalednl train {row.recipe}, {row.steps} steps", *_both(row.train_default, row.train)]
        for row in loop.rows
        if row.train_default is not None
    ]
    if not rows:
        return "No stored record has both settings yet."
    head = ["step", "default, ms", "page faults", "kept, ms", "page faults", "kept / default"]
    return markdown_table(head, rows)


def _both(default: Timing, kept: Timing) -> list[str]:
    return [
        *(f"{default.median_ms:,.0f}", _count(default.page_faults)),
        *(f"{kept.median_ms:,.0f}", _count(kept.page_faults), f"{kept.ratio(default):.2f}"),
    ]


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _of(record: OrdersRecord, method: str) -> list[OrdersRow]:
    return [row for row in record.rows if row.method == method]


def _over(record: OrdersRecord, method: str) -> list[float]:
    """The time of `auto` over that of a method, setting by setting."""
    pairs = zip(_of(record, "auto"), _of(record, method), strict=True)
    return [auto.time.ratio(other.time) for auto, other in pairs]


def _figures(values: Iterable[float], digits: int = 2) -> str:
    return _joined([f"{value:.{digits}f}" for value in values])


def _joined(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _wrapped(text: str, first: str = "", others: str = "") -> str:
    return textwrap.fill(
        text,
        118,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _picture(record: ScalingRecord, folder: str) -> str:
    return f"![Time of one block against the number of pixels]({folder}/{_chart(record)})"


def _allocator_words(record: BenchRecord) -> str:
    allocator = record.origin.allocator
    if allocator is None or allocator.state != "kept":
        return ""
    return ", freed memory kept for reuse for all of them"


def _limit_words(rows: Sequence[OrdersRow]) -> str:
    shares = [row.floor.share for row in rows if row.floor is not None]
    if not shares:
        return ""
    return (
        f" It multiplies at {_figures(shares)} of the rate that one large matrix product reaches "
        "on the same machine."
    )


def _orders_table(record: OrdersRecord) -> str:
    columns = {
        "time / associative": [f"{row.time_over_associative:.2f}" for row in _of(record, "auto")],
        "bytes kept / associative": [
            f"{row.bytes_kept_over_associative:.2f}" for row in _of(record, "auto")
        ],
        "time / plain softmax": [f"{value:.3f}" for value in _over(record, "softmax plain")],
        "time / fused softmax": [f"{value:.3f}" for value in _over(record, "softmax fused")],
    }
    if record.limit is not None:
        columns["share of the floor"] = [str(row.floor) for row in _of(record, "auto")]
    lines = zip(*columns.values(), strict=True)
    rows = [
        [row.place, row.order, *line] for row, line in zip(_of(record, "auto"), lines, strict=True)
    ]
    return markdown_table(["setting", "auto is", *columns], rows)


def _lean_words(record: OrdersRecord) -> str:
    lean = _of(record, "auto, lean")
    return _wrapped(
        '`memory="lean"` keeps x and one C x C matrix per image and recomputes the rest: '
        f"{_figures(row.bytes_kept_over_associative for row in lean)} of the bytes, at "
        f"{_figures(row.time_over_associative for row in lean)} of the time."
    )


def _heads_words(record: Table3Record) -> str:
    """The project's own verdicts on heads, in words."""
    verdicts = {one.claim: one for one in judge_costs([record])}
    time, memory = verdicts["heads-cost-no-time"], verdicts["heads-cost-no-memory"]
    found = re.findall(r"([+-][\d.]+)%", time.why)[:3]
    figures = "" if len(found) < 3 else "{} %, 90 % interval {} % to {} %".format(*found)
    return (
        f'"{memory.says}": {memory.answer}. "{time.says}": {time.answer} ({figures or time.why}).'
    )


def _table3_table(record: Table3Record) -> str:
    rows = {row.method: row for row in record.rows if row.heads == 4}
    lines = [
        [
            *(name, f"x{row.train_step_ratio:.2f}", _printed(row.paper_train_step_ratio)),
            *(f"x{row.bytes_kept_ratio:.3f}", f"x{row.peak_memory_ratio:.2f}"),
            _printed(row.paper_memory_ratio),
        ]
        for name, row in ((name, rows[method]) for method, name in NAMES.items())
    ]
    head = ["blocks", "time", "the paper's", "kept for backward", "peak memory", "the paper's"]
    return markdown_table(head, lines)


def _printed(ratio: float | None) -> str:
    return "" if ratio is None else f"x{ratio:.2f}"


def _gib(record: ScalingRecord) -> int:
    return record.settings.budget_bytes // 2**30


def _largest_words(record: ScalingRecord) -> str:
    found = {one.method: one for one in record.largest}
    side = {name: f"{one.side}x{one.side}" for name, one in found.items()}
    return (
        f"Within {_gib(record)} GiB, a block of 64 channels trains on a map of "
        f"{side['softmax plain']} with plain softmax, {side['associative']} in the associative "
        f"form and {side['auto']} with `auto`; fused softmax has memory for {_fused_side(record)} "
        "(`scalednl bench scaling`)."
    )


def _fused_side(record: ScalingRecord) -> str:
    """The largest map of fused softmax, which has the memory for it but not the time."""
    (fused,) = (one for one in record.largest if one.method == "softmax fused")
    long = f", where a step would take {fused.step_seconds / 60:.0f} minutes"
    return f"{fused.side}x{fused.side}{'' if fused.measured else long}"


def _planner_words() -> str:
    record = newest(PlannerRecord)
    near = 100 * sum(row.regret <= NEAR for row in record.rows) / len(record.rows)
    return (
        f"Over {len(record.rows)} shapes, in training and evaluation, the planner's pick was "
        f"within 10 % of the fastest order at {near:.0f} % (`python -m benchmarks.planner`)."
    )
