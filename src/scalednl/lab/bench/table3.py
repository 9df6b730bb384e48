"""Table 3 on this machine: what three blocks add to a training step of PreResNet-56."""

from typing import Any

import torch

from scalednl.blocks import NonLocal2d
from scalednl.lab.bench.agreement import network_error, require, training_error
from scalednl.lab.bench.goals import GOAL_HEAD
from scalednl.lab.bench.inference import inference_timings
from scalednl.lab.bench.measure import timings
from scalednl.lab.bench.networks import Variant, images, training_iteration
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.peak import peak_of
from scalednl.lab.bench.session import Session
from scalednl.lab.bench.table3_view import HEAD, Line, chart, goals_of, record_of, row_of
from scalednl.lab.console import print_table
from scalednl.lab.counting import bytes_kept

PLAIN = Variant("no blocks", 0)
METHODS: dict[str, dict[str, Any]] = {
    "softmax plain": {"attention": "softmax", "order": "quadratic"},
    "softmax fused": {"attention": "softmax", "order": "fused"},
    "associative": {"order": "associative"},
    "associative, rows": {"order": "associative", "rows": True},
    "auto": {},
    "auto, lean": {"memory": "lean"},
}


def run(options: BenchOptions, batch: int | None = None) -> None:
    """Measure, print, and keep."""
    session = Session("table3", options)
    batch = batch or (32 if options.quick else 64)
    variants = _variants((1, 4) if options.quick else (1, 2, 4, 8))
    repeats = options.runs(usual=9)
    lines = _measure(session, variants, batch, repeats)
    with session.step("inference at 256x256"):
        inference, inference_error = inference_timings(options.runs(41, 21), session.device)
    goals = goals_of(lines, inference)
    print(
        f"PreResNet-56, batch {batch}, channels_last: one training step, median (quartiles) of "
        f"{repeats} in ms;\nkept: bytes for backward; peak: growth of the process; "
        "x: over no blocks, the paper's beside it;\n"
        "error: of a block against the paper's equations, value and gradients.\n"
    )
    print_table(HEAD, [row_of(line, lines[0]) for line in lines])
    print_table(GOAL_HEAD, [goal.row() for goal in goals])
    result = {
        "settings": {"batch": batch, "repeats": repeats, "blocks": 3, "layout": "channels_last"},
        "rows": [record_of(line, lines[0]) for line in lines],
        "inference": {
            "error": inference_error,
            **{name: timing.as_dict() for name, timing in inference.items()},
        },
        "goals": [goal.as_dict() for goal in goals],
    }
    where = f"{session.origin.machine}, {session.origin.threads} threads, batch {batch}"
    session.finish(result, {"table3": chart(lines, where)})


def _variants(heads: tuple[int, ...]) -> list[Variant]:
    """No blocks first; the forms that only a goal needs with 4 heads, and auto with 8 always."""
    found = [PLAIN]
    for method, how in METHODS.items():
        counts = (4,) if "," in method else heads
        counts = (*counts, 8) if method == "auto" and 8 not in counts else counts
        found += [Variant(method, count, **how) for count in counts]
    return found


def _measure(session: Session, variants: list[Variant], batch: int, repeats: int) -> list[Line]:
    device = session.device
    errors = {}
    with session.step(f"agreement of {len(variants)} networks with the paper's equations"):
        for variant in variants:
            errors[variant.name] = _error(variant, device) if variant.heads else None
    with session.step("memory, a process each"):
        kept = {v.name: bytes_kept(v.network(device), images(batch, device)[0]) for v in variants}
        peaks = {
            v.name: peak_of(training_iteration, v, batch, device, device=device).bytes
            for v in variants
        }
    with session.step(f"{repeats} training steps of each, in turns"):
        steps = {v.name: training_iteration(v, batch, device) for v in variants}
        times = timings(steps, repeats, warm_up=1, device=device)
    return [Line(v, times[v.name], kept[v.name], peaks[v.name], errors[v.name]) for v in variants]


def _error(variant: Variant, device: str) -> float:
    """The block's float32 error in value and gradient; the network must agree in float64 too."""
    network = variant.network(device)
    require(network_error(network, *images(2, device)), variant.name, tolerance=1e-8)
    block = next(module for module in network.modules() if isinstance(module, NonLocal2d))
    x, grad = (
        torch.randn(2, block.channels, 16, 16, device=device).to(memory_format=torch.channels_last)
        for _ in range(2)
    )
    return require(training_error(block, x.requires_grad_(), grad), variant.name)
