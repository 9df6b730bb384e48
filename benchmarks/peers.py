"""Other implementations beside ours: the same input, the same run, in turns.

timm, mmcv, torch's fused attention, and packages for linear and efficient attention. Those that are
not installed get a line that says so; `make peers` installs them.

python -m benchmarks.peers --quick
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.command import main
from benchmarks.peer_list import HEADS, PEERS, Peer
from benchmarks.records import PeerRow, PeerShape, PeersRecord, Repeats
from scalednl.blocks import NonLocal2d
from scalednl.errors import CommandError
from scalednl.lab.bench.agreement import require, training_error
from scalednl.lab.bench.measure import inference_step, relative_error, timings, training_step
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.session import Session
from scalednl.lab.charts import Dot, Row, dot_chart
from scalednl.lab.console import print_table, short_bytes
from scalednl.lab.counting import bytes_kept, multiply_adds
from scalednl.lab.records.floor import Work
from scalednl.models.convert import convert

OURS, CONVERTED = "scalednl NonLocal2d", "the same through convert"
SETTINGS = ((8, 128, 32), (1, 64, 64))
"""Batch, channels, side"""
HEAD = ["implementation", "attention", "parameters", "training, ms", "x ours"]
HEAD += ["of floor", "forward, ms", "kept", "agreement"]


@dataclass(frozen=True)
class Contender:
    """A module that is measured, or the reason why it is not."""

    name: str
    attention: str
    module: nn.Module | None
    agreement: str = ""
    missing: str = ""


def run(options: BenchOptions) -> PeersRecord:
    """Measure, print, and keep."""
    session = Session(PeersRecord.KIND, options)
    repeats = options.runs(usual=11)
    found = []
    for batch, channels, side in SETTINGS[:1] if options.quick else SETTINGS:
        x = torch.randn(4 if options.quick else batch, channels, side, side, device=session.device)
        with session.step(f"agreement, {_words(x.shape)}"):
            contenders = _contenders(channels, x.requires_grad_())
        with session.step(f"{repeats} runs of each in turns, {_words(x.shape)}"):
            rows = _measure(session, contenders, x, repeats)
        print(
            f"{_words(x.shape)}, {HEADS} heads where they can be chosen; median (quartiles) of "
            f"{repeats}.\n"
        )
        print_table(HEAD, [_cells(row) for row in rows])
        print("agreement: with the paper's equations, or with our block of the same weights.\n")
        found.append(PeerShape(tuple(x.shape), tuple(rows)))
    record = PeersRecord(**session.header(), settings=Repeats(repeats), shapes=tuple(found))
    charts = {f"peers_{s.shape[2]}x{s.shape[3]}": _chart(s, record) for s in record.shapes}
    session.finish(record, charts)
    return record


def _contenders(channels: int, x: Tensor) -> list[Contender]:
    """Ours first, then every peer, and after it our block with its weights where that exists."""
    found = []
    for attention in ("scaled", "softmax"):
        torch.manual_seed(0)
        block = NonLocal2d(channels, attention=attention, heads=HEADS, norm_init=1.0)
        block = block.to(x.device)
        error = require(training_error(block, x, torch.randn_like(x)), f"{OURS}, {attention}")
        found.append(Contender(OURS, attention, block, f"{error:.0e}"))
    for peer in PEERS:
        missing = peer.missing()
        if missing:
            found.append(Contender(peer.name, peer.attention, None, missing=missing))
        else:
            found += contenders_of(peer, channels, x)
    return found


def contenders_of(peer: Peer, channels: int, x: Tensor) -> list[Contender]:
    """A peer, and where it can be converted our block with its weights; both checked first."""
    torch.manual_seed(0)
    module = peer.create(channels).to(x.device)
    z = module(x)
    if z.shape != x.shape or not z.isfinite().all():
        raise CommandError(f"{peer.name} gave {tuple(z.shape)} or values that are not finite")
    if peer.literal is not None:
        error = require(relative_error(z, peer.literal(module, x)), peer.name)
        return [Contender(peer.name, peer.attention, module, f"{error:.0e}")]
    if not peer.converts:
        return [Contender(peer.name, peer.attention, module, "another function")]
    for parameter in module.parameters():
        # Some start as the identity, which would agree with anything.
        nn.init.normal_(parameter, std=0.1)
    ours, _ = convert(nn.Sequential(copy.deepcopy(module)), attention="same")
    error = require(relative_error(ours(x), module(x)), f"{peer.name}, converted,")
    return [
        Contender(peer.name, peer.attention, module, f"{error:.0e}"),
        Contender(CONVERTED, peer.attention, ours, f"{error:.0e}"),
    ]


def _measure(
    session: Session, contenders: Sequence[Contender], x: Tensor, repeats: int
) -> list[PeerRow]:
    """One row per contender; by place in the list, because names repeat."""
    device = session.device
    present = {str(i): c.module for i, c in enumerate(contenders) if c.module is not None}
    grad = torch.randn_like(x)
    works = {i: _work(module, x, grad) for i, module in present.items()}
    kept = {i: bytes_kept(module, x) for i, module in present.items()}
    steps = {i: training_step(module, x, grad) for i, module in present.items()}
    training = timings(steps, repeats, device=device)
    for module in present.values():
        module.eval()
    steps = {i: inference_step(module, x) for i, module in present.items()}
    forward = timings(steps, repeats, device=device)
    rows = []
    for index, one in enumerate(contenders):
        i = str(index)
        if one.module is None:
            rows.append(PeerRow(one.name, one.attention, missing=one.missing))
            continue
        rows.append(
            PeerRow(
                one.name,
                one.attention,
                parameters=sum(parameter.numel() for parameter in one.module.parameters()),
                training=training[i],
                training_ratio=round(training[i].ratio(training["0"]), 4),
                forward=forward[i],
                bytes_kept=kept[i],
                agreement=one.agreement,
                floor=session.limit.floor(works[i], training[i]),
            )
        )
    return rows


def _work(module: nn.Module, x: Tensor, grad: Tensor) -> Work:
    """Counted multiply-adds of forward and backward, and the maps that every block moves."""
    counted = multiply_adds(lambda: module(x).backward(grad))
    module.zero_grad(set_to_none=True)
    x.grad = None
    return Work.of_block(counted, x.numel() * x.element_size(), training=True)


def _cells(row: PeerRow) -> list[str]:
    name = f"  {row.implementation}" if row.implementation == CONVERTED else row.implementation
    if row.training is None:
        return [name, row.attention, *[""] * 6, row.missing]
    return [
        *(name, row.attention, f"{row.parameters:,}", str(row.training)),
        *(f"x{row.training_ratio:.2f}", "" if row.floor is None else str(row.floor)),
        *(str(row.forward), short_bytes(row.bytes_kept or 0)),
        row.agreement,
    ]


def _chart(measured: PeerShape, record: PeersRecord) -> str:
    rows = []
    for row in measured.rows:
        if row.training is None or row.bytes_kept is None:
            continue
        low, high = row.training.quartiles_ms
        time = Dot(row.training.median_ms, f"{row.training.median_ms:.3g} ms", low, high)
        kept = Dot(row.bytes_kept / 2**20, short_bytes(row.bytes_kept))
        colour = "green" if row.implementation in (OURS, CONVERTED) else "grey"
        rows.append(Row(f"{row.implementation}, {row.attention}", colour, [[time], [kept]]))
    return dot_chart(
        f"Attention over one map: {_words(measured.shape)}",
        ["forward + backward, milliseconds", "kept for backward, MiB"],
        rows,
        log=True,
        names=330,
        foot=f"Green: scalednl. {record.where}, median of {record.settings.repeats}.",
    )


def _words(shape: Sequence[int]) -> str:
    batch, channels, height, width = shape
    return f"batch {batch}, {channels} channels, {height}x{width}"


if __name__ == "__main__":
    main(run)
