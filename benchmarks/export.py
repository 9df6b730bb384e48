"""The latency of exported blocks in onnxruntime: scaled against softmax, 64 x 64, 128 channels.

python -m benchmarks.export
"""

import tempfile
from pathlib import Path

import torch

from benchmarks.command import main
from benchmarks.onnx_session import onnx_session
from benchmarks.records import ExportRecord, Repeats
from scalednl import NonLocal2d, export_model
from scalednl.lab.bench.blocks import block_work
from scalednl.lab.bench.measure import Step, timings
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.session import Session
from scalednl.lab.console import print_table
from scalednl.lab.records.floor import Work

CHANNELS, SIDE = 128, 64


def run(options: BenchOptions) -> ExportRecord:
    """Export both, check both, run both in turn."""
    session = Session(ExportRecord.KIND, options)
    repeats = options.runs(usual=9)
    x = torch.randn(1, CHANNELS, SIDE, SIDE)
    steps: dict[str, Step] = {}
    works: dict[str, Work] = {}
    with tempfile.TemporaryDirectory() as folder, session.step("exporting and running both"):
        for attention in ("scaled", "softmax"):
            block = NonLocal2d(CHANNELS, attention=attention, heads=4, norm_init=1.0)
            works[attention] = block_work(block.eval(), x.shape)
            path = Path(folder) / f"{attention}.onnx"
            print(export_model(block, path, x))
            network = onnx_session(path)
            feed = {network.get_inputs()[0].name: x.numpy()}
            steps[attention] = lambda network=network, feed=feed: network.run(None, feed)  # type: ignore[misc]
        times = timings(steps, repeats)
    floors = {name: session.limit.floor(works[name], time) for name, time in times.items()}
    print_table(
        ["attention", "ms", "of floor"],
        [[name, str(time), str(floors[name])] for name, time in times.items()],
    )
    record = ExportRecord(
        **session.header(),
        settings=Repeats(repeats),
        scaled=times["scaled"],
        softmax=times["softmax"],
        floors=floors,
    )
    session.finish(record, {})
    return record


if __name__ == "__main__":
    main(run)
