"""ONNX and torch.export files, each checked against the network before it is kept."""

import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from scalednl.blocks import NonLocalBlock
from scalednl.files import check_target, remove
from scalednl.models.probe import evaluating, words
from scalednl.options import Order

Format = Literal["onnx", "torch"]
SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "torch": ".pt2"}
TOLERANCE = 1e-4
OLDEST_OPSET = 18
"""The oldest version of ONNX's operators that torch writes"""
INPUT, OUTPUT = "input", "output"
"""Names in an ONNX file; outputs in a dict have the names of their keys"""
OPEN = {0: "batch", 2: "height", 3: "width"}
"""Axes of the input that stay open"""
TENSORS = "return a tensor, or a dict, tuple or list of tensors"
Outputs = dict[str, Tensor]
Run = Callable[[Tensor], Outputs]


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
    outputs: tuple[str, ...] = (OUTPUT,)
    """Their names"""

    def __str__(self) -> str:
        lines = [f"{self.path} ({self.path.stat().st_size / 2**20:.2f} MiB, {self.format})"]
        if self.format == "onnx":
            sizes = " x ".join(map(str, _named_sizes(self.checks[0].shape)))
            lines.append(f"  {INPUT}: {sizes}; gives {', '.join(self.outputs)}")
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
    opset: int | None = None,
) -> ExportReport:
    """Write `model` in evaluation mode, with batch, height and width left open, and check it.

    Batch norm folds into the blocks. The order of every block is fixed at the size of `example`
    and reported. The file is run at the example's size and at four others, odd ones included; one
    that differs from the network by more than 1e-4 is not written.

    In an ONNX file the input is called "input", with the sizes batch, height and width; the output
    is called "output". Several outputs are called by their keys in a dict (a nested one "key.sub"),
    or output_0, output_1, ... in a tuple or list.

    Args:
        model: a network that takes (batch, channels, height, width) and gives a tensor, or a dict,
            tuple or list of tensors.
        path: the file; its suffix, .onnx or .pt2, says the format where `format` does not.
        example: an input; one image is enough.
        format: "onnx" (read by onnxruntime and others) or "torch" (torch.export.load).
        opset: the version of ONNX's operators, for readers that do not know the newest; None: the
            one that torch prefers.
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
    if opset is not None and chosen != "onnx":
        raise ValueError(
            f"opset={opset} is for ONNX files, and {path.name} is not one: leave it out"
        )
    check_target(path)
    # A size of 1 that is traced is fixed for good.
    several = example if len(example) > 1 else torch.cat([example, example])
    temporary = path.with_name(f".{path.name}.{os.getpid()}{SUFFIXES[chosen]}")
    with evaluating(model), _fixed_orders(model, example) as (orders, outputs):
        try:
            with _quiet():
                if chosen == "onnx":
                    run = _onnx(model, temporary, several, outputs, opset)
                else:
                    run = _torch_export(model, temporary, several)
            checks = tuple(_compare(model, run, example, size) for size in _shapes(example.shape))
            worst = max(checks, key=lambda check: check.error)
            if not worst.error <= TOLERANCE:
                raise RuntimeError(
                    f"the {chosen} file differs from the network by {worst.error:.1e} at "
                    f"{worst.shape}: it was not written"
                )
            temporary.replace(path)
        finally:
            remove(temporary)
    return ExportReport(path, chosen, orders, checks, outputs)


@contextmanager
def _fixed_orders(
    model: nn.Module, example: Tensor
) -> Iterator[tuple[dict[str, Order], tuple[str, ...]]]:
    """Every block that `example` reaches set to the order it takes there; afterwards as before.

    With the names of the model's outputs.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    blocks = dict(_blocks(model))
    handles = [
        block.register_forward_pre_hook(_note_shape(shapes, name), with_kwargs=True)
        for name, block in blocks.items()
    ]
    try:
        with torch.no_grad():
            outputs = tuple(_named(model(example)))
    finally:
        for handle in handles:
            handle.remove()
    before = {name: blocks[name].order for name in shapes}
    orders = {name: blocks[name].plan(shape).order for name, shape in shapes.items()}
    try:
        for name, order in orders.items():
            blocks[name].order = order
        yield orders, outputs
    finally:
        for name, old in before.items():
            blocks[name].order = old


def _note_shape(shapes: dict[str, tuple[int, ...]], name: str) -> Callable[..., None]:
    def note(_block: nn.Module, inputs: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
        x = inputs[0] if inputs else named["x"]
        shapes.setdefault(name, tuple(x.shape))

    return note


def _blocks(model: nn.Module) -> list[tuple[str, NonLocalBlock]]:
    return [(n, m) for n, m in model.named_modules() if isinstance(m, NonLocalBlock)]


def _named(output: object, name: str = "") -> Outputs:
    """The tensors of an output, by name; an output without a name is called "output"."""
    if isinstance(output, Tensor):
        return {name or OUTPUT: output}
    if isinstance(output, dict):
        start = f"{name}." if name else ""
        parts = [_named(value, f"{start}{key}") for key, value in output.items()]
    elif isinstance(output, tuple | list):
        parts = [_named(value, f"{name or OUTPUT}_{n}") for n, value in enumerate(output)]
    else:
        what = words(output)
        raise ValueError(f"the model gives {what}{f' as {name!r}' if name else ''}: {TENSORS}")
    return {name: tensor for part in parts for name, tensor in part.items()}


def _named_sizes(shape: Sequence[int]) -> list[str | int]:
    return [OPEN.get(axis, size) for axis, size in enumerate(shape)]


def _onnx(
    model: nn.Module, path: Path, example: Tensor, outputs: Sequence[str], opset: int | None
) -> Run:
    try:
        import onnx
        import onnxruntime
    except ImportError:
        raise ValueError(
            "ONNX needs onnx, onnxscript and onnxruntime: pip install 'scalednl[export]'"
        ) from None
    try:
        torch.onnx.export(
            model,
            (example,),
            path,
            dynamo=True,
            dynamic_shapes=(OPEN,),
            external_data=False,
            verbose=False,
            input_names=[INPUT],
            output_names=list(outputs),
            opset_version=opset,
        )
    except torch.onnx.OnnxExporterError as error:
        if opset is None or opset >= OLDEST_OPSET:
            raise
        raise ValueError(
            f"torch cannot write this network with opset={opset}: use {OLDEST_OPSET} or a later "
            "one, or leave it out"
        ) from error
    (written,) = (o.version for o in onnx.load(path).opset_import if o.domain in ("", "ai.onnx"))
    if opset not in (None, written):
        raise ValueError(
            f"torch writes this network with opset {written}, not with opset={opset}: use "
            f"{written}, or leave it out"
        )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(x: Tensor) -> Outputs:
        answers = session.run(list(outputs), {INPUT: x.cpu().numpy()})
        return dict(zip(outputs, map(torch.from_numpy, answers), strict=True))

    return run


def _torch_export(model: nn.Module, path: Path, example: Tensor) -> Run:
    sizes = (dict.fromkeys(OPEN, torch.export.Dim.DYNAMIC),)
    program = torch.export.export(model, (example,), dynamic_shapes=sizes)
    # Through memory: where a disk is full, torch's own writer ends the process.
    content = io.BytesIO()
    torch.export.save(program, content)
    path.write_bytes(content.getbuffer())
    module = torch.export.load(path).module()
    return lambda x: _named(module(x))


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


def _compare(model: nn.Module, run: Run, example: Tensor, shape: tuple[int, ...]) -> Check:
    """The largest error of an output, relative to the largest number in it."""
    with torch.no_grad():
        x = torch.randn(shape).to(example)
        truths, answers = _named(model(x)), run(x)
    errors = [_error(answers[name], truth) for name, truth in truths.items()]
    return Check(shape, max(errors))


def _error(answer: Tensor, truth: Tensor) -> float:
    if answer.shape != truth.shape:
        return float("inf")
    exact = truth.cpu().double()
    return float((answer.cpu().double() - exact).abs().max() / exact.abs().max().clamp_min(1e-12))


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
