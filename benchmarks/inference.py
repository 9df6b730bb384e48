"""Inference on one large map, batch norm folded, against the floor of two bare products.

python -m benchmarks.inference --quick
"""

import torch
from torch import Tensor

from benchmarks.command import main
from benchmarks.records import InferenceRecord, Repeats
from scalednl.blocks import NonLocal2d
from scalednl.lab.bench.agreement import require, sampled_error
from scalednl.lab.bench.blocks import block_work
from scalednl.lab.bench.measure import Step, inference_step, timings
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.session import Session
from scalednl.lab.console import print_table

CHANNELS, SIDE = 64, 256


def run(options: BenchOptions) -> InferenceRecord:
    """Measure, print, and keep."""
    session = Session(InferenceRecord.KIND, options)
    repeats = options.runs(usual=41, quick=21)
    torch.manual_seed(0)
    x = torch.randn(1, CHANNELS, SIDE, SIDE, device=session.device)
    x = x.to(memory_format=torch.channels_last)
    auto = NonLocal2d(CHANNELS, norm_init=1.0).to(session.device).eval()
    associative = NonLocal2d(CHANNELS, order="associative").to(session.device).eval()
    associative.load_state_dict(auto.state_dict())
    blocks = {"auto": auto, "associative": associative}
    with session.step(f"{repeats} runs of each, in turns"):
        error = max(require(sampled_error(b, x), name) for name, b in blocks.items())
        steps: dict[str, Step] = {name: inference_step(block, x) for name, block in blocks.items()}
        steps["floor"] = _two_products(x)
        times = timings(steps, repeats, warm_up=3, device=session.device)
    print(
        f"1 x {CHANNELS} x {SIDE} x {SIDE}, median (quartiles) of {repeats}; error {error:.0e}.\n"
    )
    floors = {
        name: session.limit.floor(block_work(block, x.shape), times[name])
        for name, block in blocks.items()
    }
    print_table(
        ["method", "ms", "of floor"],
        [[name, str(time), str(floors.get(name, ""))] for name, time in times.items()],
    )
    record = InferenceRecord(
        **session.header(),
        settings=Repeats(repeats),
        error=error,
        auto=times["auto"],
        associative=times["associative"],
        floor=times["floor"],
        floors=floors,
    )
    session.finish(record, {})
    return record


def _two_products(x: Tensor) -> Step:
    """C x C by C x N, twice: the least that any exact form has to multiply."""
    weight = torch.randn(x.shape[1], x.shape[1], device=x.device)
    columns = x.flatten(2)[0].contiguous()

    def step() -> None:
        torch.mm(weight, columns)
        torch.mm(weight, columns)

    return step


if __name__ == "__main__":
    main(run)
