"""Latency of exported networks with blocks, one image at a time: eager, onnxruntime, AOTInductor.

Every program is compared with the network before it is timed. Compiling takes some minutes.

python -m benchmarks.deployment --threads 2
"""

import logging
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import scalednl
from benchmarks import torchvision_operators
from benchmarks.command import main
from benchmarks.onnx_session import onnx_session
from benchmarks.records import DeploymentRecord, DeploymentRow, Repeats
from scalednl.errors import CommandError
from scalednl.lab.bench.agreement import require
from scalednl.lab.bench.measure import Step, relative_error, timings
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.session import Session
from scalednl.lab.console import print_table

FREEZING: dict[str, Any] = {"freezing": True}
"""Options of AOTInductor: weights are constants, so that batch norm folds into convolutions"""
BLOCK = scalednl.BlockConfig(heads=4, norm_init=1.0)


def run(options: BenchOptions) -> DeploymentRecord:
    """Export, check, time in turns, and keep."""
    if options.device != "cpu":
        raise CommandError("this benchmark runs on a CPU: leave --device out")
    session = Session(DeploymentRecord.KIND, options)
    repeats = options.runs(usual=41)
    rows = []
    for name, (side, make) in list(NETWORKS.items())[: 1 if options.quick else None]:
        with session.step(f"{name} at {side} px"), tempfile.TemporaryDirectory() as folder:
            rows.append(_row(name, side, _with_statistics(make(), side), Path(folder), repeats))
    print(f"One image, evaluation; median (quartiles) of {repeats}, ms.\n")
    print_table(["network", *rows[0].times, "error"], [_cells(row) for row in rows])
    record = DeploymentRecord(**session.header(), settings=Repeats(repeats), rows=tuple(rows))
    session.finish(record, {})
    return record


def _preresnet() -> nn.Module:
    stack = scalednl.StackConfig(block=BLOCK, count=3, stage=2)
    return scalednl.create_model("preresnet56", num_classes=10, blocks=stack)


def _resnet50() -> nn.Module:
    torchvision_operators.declare()
    models: Any = import_module("torchvision.models")
    return scalednl.insert_nonlocal(models.resnet50(), {"layer3": 3}, block=BLOCK, check=False)[0]


def _fully_convolutional() -> nn.Module:
    """Three strided convolutions, a block of 64 channels at 1/8 of the size, two convolutions."""
    layers: list[nn.Module] = []
    for before, after in pairwise((3, 16, 32, 64)):
        layers += _convolution(before, after, stride=2)
    block = scalednl.NonLocal2d(64, heads=4, norm_init=1.0)
    return nn.Sequential(*layers, block, *_convolution(64, 64), nn.Conv2d(64, 10, 1))


def _convolution(before: int, after: int, stride: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(before, after, 3, stride, 1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
    ]


NETWORKS: dict[str, tuple[int, Callable[[], nn.Module]]] = {
    "PreResNet-56, 3 blocks": (32, _preresnet),
    "ResNet-50, 3 blocks": (224, _resnet50),
    "fully convolutional, 1 block": (1024, _fully_convolutional),
}


@torch.no_grad()
def _with_statistics(network: nn.Module, side: int) -> nn.Module:
    """In evaluation mode, with the statistics of some random images."""
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    network.train()(torch.randn(4, 3, side, side))
    return network.eval()


def _row(name: str, side: int, network: nn.Module, folder: Path, repeats: int) -> DeploymentRow:
    x = torch.randn(1, 3, side, side)
    steps: dict[str, Callable[[], Tensor]] = {
        "eager": partial(_eager, network, x),
        "onnxruntime": _onnxruntime(network, x, folder / "network.onnx"),
        "AOTInductor": _compiled(network, x, folder / "network.pt2"),
    }
    truth = _eager(network.double(), x.double())
    network.float()
    error = max(require(relative_error(s(), truth), f"{name} by {way}") for way, s in steps.items())
    timed: dict[str, Step] = dict(steps)
    return DeploymentRow(name, side, error, timings(timed, repeats, warm_up=3))


def _eager(network: nn.Module, x: Tensor) -> Tensor:
    with torch.inference_mode():
        return network(x)


def _onnxruntime(network: nn.Module, x: Tensor, path: Path) -> Callable[[], Tensor]:
    """The file of `export_model`."""
    scalednl.export_model(network, path, x)
    session = onnx_session(path)
    feed = {session.get_inputs()[0].name: x.numpy()}
    return lambda: torch.from_numpy(session.run(None, feed)[0])


def _compiled(network: nn.Module, x: Tensor, path: Path) -> Callable[[], Tensor]:
    """A program of AOTInductor for this size."""
    from torch._inductor import aoti_compile_and_package, aoti_load_package

    logging.disable(logging.WARNING)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(network, (x,))
        aoti_compile_and_package(program, package_path=str(path), inductor_configs=FREEZING)
        compiled: Any = aoti_load_package(str(path))
    logging.disable(logging.NOTSET)
    return lambda: compiled(x)


def _cells(row: DeploymentRow) -> list[str]:
    return [f"{row.network}, {row.side} px", *map(str, row.times.values()), f"{row.error:.0e}"]


if __name__ == "__main__":
    main(run)
