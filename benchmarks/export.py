"""The latency of exported blocks in onnxruntime: scaled against softmax, 64 x 64, 128 channels.

python benchmarks/export.py
"""

import sys
import tempfile
from pathlib import Path

import onnxruntime
import torch

from scalednl import NonLocal2d, export_model
from scalednl.lab.bench.measure import Step, timings

THREADS, REPEATS, TARGET = 2, 9, 0.2


def main() -> None:
    """Export both, check both, run both in turn."""
    torch.set_num_threads(THREADS)
    x = torch.randn(1, 128, 64, 64)
    steps: dict[str, Step] = {}
    with tempfile.TemporaryDirectory() as folder:
        for attention in ("scaled", "softmax"):
            block = NonLocal2d(128, attention=attention, heads=4, norm_init=1.0)
            path = Path(folder) / f"{attention}.onnx"
            print(export_model(block, path, x))
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = THREADS
            session = onnxruntime.InferenceSession(path, options)
            feed = {session.get_inputs()[0].name: x.numpy()}
            steps[attention] = lambda session=session, feed=feed: session.run(None, feed)  # type: ignore[misc]
        times = {name: timing.median for name, timing in timings(steps, REPEATS).items()}
    ratio = times["scaled"] / times["softmax"]
    for name, seconds in times.items():
        print(f"{name:<8} {seconds * 1e3:7.1f} ms")
    print(f"scaled / softmax = {ratio:.3f} (<= {TARGET})")
    sys.exit(ratio > TARGET)


if __name__ == "__main__":
    main()
