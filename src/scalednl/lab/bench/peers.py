"""Other implementations beside ours: the same input, the same run, in turns."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from scalednl.blocks import NonLocal2d
from scalednl.errors import CommandError
from scalednl.lab.bench.agreement import require, training_error
from scalednl.lab.bench.measure import inference_step, relative_error, timings, training_step
from scalednl.lab.bench.options import BenchOptions, short_bytes
from scalednl.lab.bench.peer_list import HEADS, PEERS, Peer
from scalednl.lab.bench.session import Session
from scalednl.lab.bench.timing import Timing
from scalednl.lab.charts import Dot, Row, dot_chart
from scalednl.lab.console import print_table
from scalednl.lab.counting import bytes_kept
from scalednl.models.convert import convert

OURS = "scalednl NonLocal2d"
SETTINGS = ((8, 128, 32), (1, 64, 64))
HEAD = ["implementation", "attention", "parameters", "training, ms", "x ours"]
HEAD += ["forward, ms", "kept", "agreement"]


@dataclass(frozen=True)
class Contender:
    """A module that is measured, or the reason why it is not."""

    name: str
    attention: str
    module: nn.Module | None
    agreement: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Measured:
    """A contender's costs."""

    contender: Contender
    training: Timing
    forward: Timing
    kept: int


def run(options: BenchOptions) -> None:
    """Measure, print, and keep."""
    session = Session("peers", options)
    repeats = options.runs(usual=11)
    records, charts = [], {}
    for batch, channels, side in SETTINGS[:1] if options.quick else SETTINGS:
        batch = 4 if options.quick else batch
        shape = f"batch {batch}, {channels} channels, {side}x{side}"
        with session.step(f"agreement, {shape}"):
            x = torch.randn(batch, channels, side, side, device=session.device)
            contenders = _contenders(channels, x.requires_grad_())
        with session.step(f"{repeats} runs of each in turns, {shape}"):
            measured = _measure(contenders, x, repeats, session.device)
        print(
            f"{shape}, {HEADS} heads where they can be chosen; median (quartiles) of {repeats}.\n"
        )
        print_table(HEAD, _rows(contenders, measured))
        print("agreement: with the paper's equations, or with our block of the same weights.\n")
        records.append({"shape": list(x.shape), "rows": _records(contenders, measured)})
        where = f"{session.origin.machine}, {session.origin.threads} threads, median of {repeats}"
        charts[f"peers_{side}x{side}"] = _chart(measured, shape, where)
    session.finish({"settings": {"repeats": repeats}, "shapes": records}, charts)


def _contenders(channels: int, x: Tensor) -> list[Contender]:
    """Ours first, then every peer, and after it our block with its weights where that exists."""
    found = []
    for attention in ("scaled", "softmax"):
        torch.manual_seed(0)
        block = NonLocal2d(channels, attention=attention, heads=HEADS, norm_init=1.0)
        block = block.to(x.device)
        error = require(training_error(block, x, torch.randn_like(x)), f"{OURS}, {attention}")
        found.append(Contender(f"{OURS}", attention, block, f"{error:.0e}"))
    for peer in PEERS:
        missing = peer.missing()
        if missing:
            found.append(Contender(peer.name, peer.attention, None, missing=missing))
        else:
            found += _of_peer(peer, channels, x)
    return found


def _of_peer(peer: Peer, channels: int, x: Tensor) -> list[Contender]:
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
        Contender("  the same through convert", peer.attention, ours, f"{error:.0e}"),
    ]


def _measure(
    contenders: Sequence[Contender], x: Tensor, repeats: int, device: str
) -> dict[int, Measured]:
    """By place in the list: names repeat."""
    there = {str(i): c.module for i, c in enumerate(contenders) if c.module is not None}
    grad = torch.randn_like(x)
    kept = {i: bytes_kept(module, x) for i, module in there.items()}
    training = timings(
        {i: training_step(m, x, grad) for i, m in there.items()}, repeats, device=device
    )
    for module in there.values():
        module.eval()
    forward = timings({i: inference_step(m, x) for i, m in there.items()}, repeats, device=device)
    return {int(i): Measured(contenders[int(i)], training[i], forward[i], kept[i]) for i in there}


def _rows(contenders: Sequence[Contender], measured: dict[int, Measured]) -> list[list[str]]:
    rows = []
    for index, contender in enumerate(contenders):
        start = [contender.name, contender.attention]
        if index not in measured:
            rows.append([*start, *[""] * 5, contender.missing])
            continue
        found = measured[index]
        rows.append(
            [
                *start,
                f"{_parameters(contender):,}",
                str(found.training),
                f"x{found.training.ratio(measured[0].training):.2f}",
                str(found.forward),
                short_bytes(found.kept),
                contender.agreement,
            ]
        )
    return rows


def _records(
    contenders: Sequence[Contender], measured: dict[int, Measured]
) -> list[dict[str, Any]]:
    records = []
    for index, contender in enumerate(contenders):
        record: dict[str, Any] = {
            "implementation": contender.name.strip(),
            "attention": contender.attention,
        }
        if index in measured:
            found = measured[index]
            record |= {
                "parameters": _parameters(contender),
                "training": found.training.as_dict(),
                "training_ratio": round(found.training.ratio(measured[0].training), 4),
                "forward": found.forward.as_dict(),
                "bytes_kept": found.kept,
                "agreement": contender.agreement,
            }
        else:
            record["missing"] = contender.missing
        records.append(record)
    return records


def _parameters(contender: Contender) -> int:
    assert contender.module is not None
    return sum(parameter.numel() for parameter in contender.module.parameters())


def _chart(measured: dict[int, Measured], shape: str, where: str) -> str:
    rows = []
    for found in measured.values():
        ours = found.contender.name == OURS or found.contender.name.startswith("  ")
        low, high = (value * 1e3 for value in found.training.quartiles)
        time = Dot(found.training.median * 1e3, f"{found.training.median * 1e3:.3g} ms", low, high)
        kept = Dot(found.kept / 2**20, short_bytes(found.kept))
        name = f"{found.contender.name.strip()}, {found.contender.attention}"
        rows.append(Row(name, "green" if ours else "grey", [[time], [kept]]))
    return dot_chart(
        f"Attention over one map: {shape}",
        ["forward + backward, milliseconds", "kept for backward, MiB"],
        rows,
        log=True,
        names=330,
        foot=f"Green: scalednl. {where}.",
    )
