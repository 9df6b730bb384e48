"""ONNX and torch.export files, each checked against the network before it is kept."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from scalednl.blocks import NonLocalBlock
from scalednl.models.probe import evaluating
from scalednl.options import Order

Format = Literal["onnx", "torch"]
SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "torch": ".pt2"}
TOLERANCE = 1e-4
Run = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Check:
    """One comparison of the exported file with the network."""

    shape: tuple[int, ...]
    error: float


@dataclass(frozen=True)
class ExportReport:
    """What was written, with which orders, and how far it is from the network."""

    path: Path
    format: Format
    orders: dict[str, Order]
    """The order of every block, fixed at the example's size"""
    checks: tuple[Check, ...]

    def __str__(self) -> str:
        lines = [f"{self.path} ({self.path.stat().st_size / 2**20:.2f} MiB, {self.format})"]
        lines += [f"  {path or 'the block'}: order {order}" for path, order in self.orders.items()]
        for check in self.checks:
            shape = " x ".join(map(str, check.shape))
            lines.append(f"  {shape}: differs from the network by {check.error:.0e}")
        return "\n".join(lines)


def export_model(
    model: nn.Module,
    path: str | Path,
    example: Tensor,
    format: Format | None = None,  # noqa: A002
) -> ExportReport:
    """Write `model` in evaluation mode, with batch, height and width left open, and check it.

    Batch norm folds into the blocks. The order of every block is fixed at the size of `example`
    and reported. The file is run at the example's size and at four others, odd ones included; one
    that differs from the network by more than 1e-4 is not written.

    Args:
        model: a network that takes (batch, channels, height, width).
        path: the file; its suffix, .onnx or .pt2, says the format where `format` does not.
        example: an input.
        format: "onnx" (read by onnxruntime and others) or "torch" (torch.export.load).
    """
    path = Path(path)
    chosen = format or next((f for f, suffix in SUFFIXES.items() if suffix == path.suffix), None)
    if chosen not in SUFFIXES:
        raise ValueError(
            f"{path.name} does not say a format: end it in .onnx or .pt2, or pass format="
        )
    if example.dim() != 4:
        raise ValueError(
            f"example must be (batch, channels, height, width), not of shape {tuple(example.shape)}"
        )
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is not a folder: make it first")
    # A size of 1 that is traced is fixed for good.
    several = example if len(example) > 1 else torch.cat([example, example])
    temporary = path.with_name(f".{path.name}.{os.getpid()}{SUFFIXES[chosen]}")
    with evaluating(model), _fixed_orders(model, example) as orders:
        try:
            with _quiet():
                run = (_onnx if chosen == "onnx" else _torch_export)(model, temporary, several)
            checks = tuple(_compare(model, run, shape) for shape in _shapes(example.shape))
            worst = max(checks, key=lambda check: check.error)
            if not worst.error <= TOLERANCE:
                raise RuntimeError(
                    f"the {chosen} file differs from the network by {worst.error:.1e} at "
                    f"{worst.shape}: it was not written"
                )
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    return ExportReport(path, chosen, orders, checks)


@contextmanager
def _fixed_orders(model: nn.Module, example: Tensor) -> Iterator[dict[str, Order]]:
    """Every block that `example` reaches set to the order it takes there; afterwards as before."""
    shapes: dict[str, tuple[int, ...]] = {}
    blocks = dict(_blocks(model))
    handles = [
        block.register_forward_pre_hook(_note_shape(shapes, name)) for name, block in blocks.items()
    ]
    try:
        with torch.no_grad():
            model(example)
    finally:
        for handle in handles:
            handle.remove()
    before = {name: blocks[name].order for name in shapes}
    orders = {name: blocks[name].plan(shape).order for name, shape in shapes.items()}
    try:
        for name, order in orders.items():
            blocks[name].order = order
        yield orders
    finally:
        for name, old in before.items():
            blocks[name].order = old


def _note_shape(shapes: dict[str, tuple[int, ...]], name: str) -> Callable[..., None]:
    def note(_block: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        shapes.setdefault(name, tuple(inputs[0].shape))

    return note


def _blocks(model: nn.Module) -> list[tuple[str, NonLocalBlock]]:
    return [(n, m) for n, m in model.named_modules() if isinstance(m, NonLocalBlock)]


def _open_sizes() -> tuple[dict[int, Any], ...]:
    dynamic = torch.export.Dim.DYNAMIC
    return ({0: dynamic, 2: dynamic, 3: dynamic},)


def _onnx(model: nn.Module, path: Path, example: Tensor) -> Run:
    try:
        import onnxruntime
    except ImportError:
        raise ValueError(
            "ONNX needs onnx, onnxscript and onnxruntime: pip install 'scalednl[export]'"
        ) from None
    torch.onnx.export(
        model,
        (example,),
        path,
        dynamo=True,
        dynamic_shapes=_open_sizes(),
        external_data=False,
        verbose=False,
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def run(x: Tensor) -> Tensor:
        (answer,) = session.run(None, {name: x.numpy()})
        return torch.from_numpy(answer)

    return run


def _torch_export(model: nn.Module, path: Path, example: Tensor) -> Run:
    program = torch.export.export(model, (example,), dynamic_shapes=_open_sizes())
    torch.export.save(program, path)
    return torch.export.load(path).module()


def _shapes(shape: Sequence[int]) -> list[tuple[int, ...]]:
    """The example's shape and four that it was not traced at, odd ones included."""
    batch, channels, height, width = shape
    return [
        (batch, channels, height, width),
        (batch + 1, channels, height + 3, width + 5),
        (2, channels, height, width + 1),
        (3, channels, height * 2, width),
        (2, channels, max(2, height - 2), max(2, width - 3)),
    ]


def _compare(model: nn.Module, run: Run, shape: tuple[int, ...]) -> Check:
    with torch.no_grad():
        x = torch.randn(shape)
        truth = model(x)
        answer = run(x)
    error = (answer - truth).abs().max() / truth.abs().max().clamp_min(1e-12)
    return Check(shape, float(error))


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch's exporters warn and log about themselves; their outcome is checked instead."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
