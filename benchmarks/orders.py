"""What the orders cost: prints the figures of the README, agreement first.

    python benchmarks/orders.py            all of it, about 4 minutes on 2 cores
    python benchmarks/orders.py settings   only the three settings
    python benchmarks/orders.py growth     only the cost from 32 x 32 to 128 x 128
    python benchmarks/orders.py tiles      only the 2048 x 2048 map through Moments
    python benchmarks/orders.py planner    only the planner's choices against measurements

float32, 2 threads, training mode with batch norm, forward + backward, channels_last, interleaved
repeats in one process, best of 9.
"""

import platform
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from scalednl import Moments, NonLocal2d
from scalednl.bench.measure import (
    Step,
    bytes_kept,
    fastest,
    inference_step,
    interleaved,
    relative_error,
    training_step,
)
from scalednl.ops.planner import Choice, choose, schedule

THREADS, REPEATS, TOLERANCE = 2, 9, 1e-4
SETTINGS = [(128, 128, 16), (32, 64, 32), (4, 128, 64)]
TARGETS = [(0.80, 0.50, 0.30), (0.45, 0.35, 0.05), (0.45, 0.35, 0.02)]


class AssociativeRows(NonLocal2d):
    """The associative order as products on the (batch, pixels, channels) view, not convolutions."""

    def forward(self, x: Tensor) -> Tensor:
        """z, for training mode."""
        rows = x.flatten(2).transpose(1, 2)
        theta, phi, g = (
            F.linear(rows, conv.weight.flatten(1)).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for conv in (self.theta, self.phi, self.g)
        )
        context = (phi.mT @ g) * (rows.shape[1] * theta.shape[-1]) ** -0.5
        y = (theta @ context).transpose(1, 2).flatten(2)
        u = F.linear(y, self.out.weight.flatten(1)).transpose(1, 2).unflatten(2, x.shape[2:])
        assert self.norm is not None
        return x + self.norm(u)


def features(batch: int, channels: int, side: int) -> tuple[Tensor, Tensor]:
    """Random channels_last maps and a gradient of the same layout."""
    x, grad = (
        torch.randn(batch, channels, side, side).to(memory_format=torch.channels_last)
        for _ in range(2)
    )
    return x.requires_grad_(), grad


def contenders(channels: int) -> dict[str, NonLocal2d]:
    """The same weights in every order; softmax has the same weights and another attention."""
    blocks: dict[str, NonLocal2d] = {
        "auto": NonLocal2d(channels, norm_init=1.0),
        "lean": NonLocal2d(channels, memory="lean"),
        "associative": NonLocal2d(channels, order="associative"),
        "associative, rows": AssociativeRows(channels, order="associative"),
        "softmax": NonLocal2d(channels, attention="softmax", order="quadratic"),
        "softmax, fused": NonLocal2d(channels, attention="softmax"),
    }
    for block in blocks.values():
        block.load_state_dict(blocks["auto"].state_dict())
    return blocks


def check_agreement(blocks: Mapping[str, NonLocal2d], x: Tensor, grad: Tensor) -> float:
    """The largest relative error of any scaled order's output or gradient; raises if too large."""
    truth: list[Tensor] = []
    worst = 0.0
    for block in blocks.values():
        if block.attention != "scaled":
            continue
        z = block(x)
        found = [z, *torch.autograd.grad(z, [x, *block.parameters()], grad)]
        truth = truth or found
        worst = max([worst, *(relative_error(f, t) for f, t in zip(found, truth, strict=True))])
    if worst > TOLERANCE:
        raise RuntimeError(f"the orders disagree by {worst:.1e}: no number on a red gate")
    return worst


def settings() -> None:
    """Time and bytes of auto against associative in its best shape, and against softmax."""
    rows = []
    for (batch, channels, side), targets in zip(SETTINGS, TARGETS, strict=True):
        x, grad = features(batch, channels, side)
        blocks = contenders(channels)
        error = check_agreement(blocks, x, grad)
        kept = {name: bytes_kept(block, x) for name, block in blocks.items()}
        steps = {name: training_step(block, x, grad) for name, block in blocks.items()}
        slow = {name: steps.pop(name) for name in ("softmax", "softmax, fused")}
        times = fastest(interleaved(steps, REPEATS))
        # Softmax takes seconds: fewer rounds, each with its own runs of auto beside it.
        rounds = fastest(interleaved({**slow, "auto": steps["auto"]}, 5, warm_up=1))
        best = min(times["associative"], times["associative, rows"])
        ratios = (
            times["auto"] / best,
            kept["auto"] / kept["associative"],
            rounds["auto"] / rounds["softmax"],
        )
        plan = blocks["auto"].plan(x.shape)
        rows.append(
            [
                f"B{batch} C{channels} {side}x{side}",
                plan.order + (" + norm" if plan.fold else ""),
                f"{times['auto'] * 1e3:.1f} ms",
                f"{best * 1e3:.1f} ms",
                *(
                    f"{r:.3f} (<= {t:.2f}) {'ok' if r <= t else 'MISS'}"
                    for r, t in zip(ratios, targets, strict=True)
                ),
                f"{rounds['auto'] / rounds['softmax, fused']:.3f}",
                f"{times['lean'] / best:.2f} / {kept['lean'] / kept['associative']:.2f}",
                f"{error:.0e}",
            ]
        )
    head = ["setting, 4 heads", "auto is", "auto", "associative", "time / associative"]
    head += ["bytes / associative", "time / softmax", "time / fused", "lean time / bytes", "error"]
    print_table(head, rows)


def growth() -> None:
    """The cost from 32 x 32 to 128 x 128: 16 times the pixels."""
    block = NonLocal2d(64, norm_init=1.0)
    steps = {side: training_step(block, *features(4, 64, side)) for side in (32, 64, 128)}
    times = fastest(interleaved({str(side): step for side, step in steps.items()}, 25))
    ratio = times["128"] / times["32"]
    small = {name: f"{seconds * 1e3:.2f} ms" for name, seconds in times.items()}
    print(f"B4 C64, {small}: 128x128 / 32x32 = x{ratio:.1f} (<= 20)\n")


def planner() -> None:
    """What the planner picks against what is fastest, over shapes in training and evaluation."""
    shapes = [(c, side, c, 4) for c in (32, 64, 128, 256) for side in (7, 8, 14, 16, 28, 32, 56)]
    shapes += [(512, side, 512, 8) for side in (7, 14, 28)]
    shapes += [(c, side, c // k, 4) for c, side in ((64, 32), (128, 16)) for k in (2, 4, 8)]
    shapes += [(128, 16, 128, heads) for heads in (1, 8)]
    good = total = 0
    for training in (True, False):
        for channels, side, embed, heads in shapes:
            pick, win, regret = _regret(channels, side, embed, heads, training)
            total += 1
            good += regret <= 1.1
            mark = "" if regret <= 1.1 else "   <--"
            mode = "training" if training else "evaluation"
            print(
                f"C{channels:<4} {side:>3}x{side:<3} E{embed:<4} h{heads} {mode:<10} "
                f"picks {_name(pick):<12} fastest {_name(win):<12} x{regret:.2f}{mark}",
                flush=True,
            )
    print(f"within 10 % of the fastest: {good} of {total} = {good / total:.0%} (>= 90 %)\n")


def _regret(
    channels: int, side: int, embed: int, heads: int, training: bool
) -> tuple[Choice, Choice, float]:
    pixels = side * side
    batch = max(1, min(64, 2**20 // (channels * pixels), 2**25 // channels**3))
    x, grad = features(batch, channels, side)
    block = NonLocal2d(channels, heads=heads, embed_channels=embed, norm_init=1.0)
    setting = block.train(training).plan(x.shape).setting
    choices = [Choice("associative", False), Choice("gram", False)]
    choices += [Choice("gram", True)] if training else []
    choices += [Choice("quadratic", False)] if pixels <= 256 else []
    steps: dict[str, Step] = {}
    for choice in choices:
        forced = NonLocal2d(channels, heads=heads, embed_channels=embed, norm_init=1.0)
        forced.train(training)._forced = choice
        step = training_step(forced, x, grad) if training else inference_step(forced, x)
        steps[_name(choice)] = step
    times = fastest(interleaved(steps, REPEATS))
    pick = choose(schedule(setting, "auto", ("fused",)), pixels)
    win = min(choices, key=lambda choice: times[_name(choice)])
    return pick, win, times[_name(pick)] / times[_name(win)]


def _name(choice: Choice) -> str:
    return choice.order + (" + norm" if choice.fold else "")


def tiles() -> None:
    """A 2048 x 2048 map of 64 channels through Moments, and the working set at two sizes."""
    with torch.no_grad():
        torch.manual_seed(0)
        block = NonLocal2d(64, norm_init=1.0).eval()
        whole = torch.empty(1, 64, 2048, 2048)
        corners = [(r, c) for r in range(0, 2048, 256) for c in range(0, 2048, 256)]
        for r, c in corners:
            whole[:, :, r : r + 256, c : c + 256] = _tile(r, c)
        truth = block(whole)
        moments = Moments()
        for r, c in corners:
            moments.update(_tile(r, c))
        worst = max(
            relative_error(
                block.apply_moments(_tile(r, c), moments), truth[:, :, r : r + 256, c : c + 256]
            )
            for r, c in corners
        )
    print(f"2048x2048, 64 channels, 64 tiles: largest relative error {worst:.1e} (<= 1e-4)")
    for side in (512, 1024, 2048):
        run = subprocess.run(
            [sys.executable, __file__, f"tiles-{side}"], capture_output=True, text=True, check=True
        )
        print(f"  {(side // 256) ** 2:>3} tiles: working set beyond one's {run.stdout.strip()}")
    print()


def working_set(side: int) -> None:
    """Print by how much this process's peak memory grew over one tiled pass of the given side."""
    block = NonLocal2d(64, norm_init=1.0).eval()
    corners = [(r, c) for r in range(0, side, 256) for c in range(0, side, 256)]
    with torch.no_grad():
        block.apply_moments(_tile(0, 0), Moments().update(_tile(0, 0)))
        start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        moments = Moments()
        for corner in corners:
            moments.update(_tile(*corner))
        for corner in corners:
            block.apply_moments(_tile(*corner), moments)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
    print(f"{grown / 1024:.1f} MiB (one tile is {64 * 256 * 256 * 4 / 2**20:.0f} MiB)")


def _tile(row: int, column: int) -> Tensor:
    generator = torch.Generator().manual_seed(row * 2048 + column)
    return torch.randn(1, 64, 256, 256, generator=generator) + 0.5


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """A Markdown table with columns wide enough to be read as text."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in (head, *rows)
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    print("\n".join(lines) + "\n", flush=True)


PARTS: dict[str, Callable[[], None]] = {
    "settings": settings,
    "growth": growth,
    "tiles": tiles,
    "planner": planner,
}


def main(arguments: list[str]) -> None:
    """Run the parts that are named, or all."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    if arguments and arguments[0].startswith("tiles-"):
        working_set(int(arguments[0].removeprefix("tiles-")))
        return
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return
    unknown = [name for name in arguments if name not in PARTS]
    if unknown:
        sys.exit(f"unknown part {unknown[0]!r}: use {', '.join(PARTS)}")
    print(f"{platform.machine()}, torch {torch.__version__}, {THREADS} threads\n")
    for name in arguments or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
