"""Masks and other keys under torch.compile, torch.export and ONNX, also at untraced sizes."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import scalednl
from scalednl.ops.planner import Choice
from tests.support import assert_close, assert_close_all, force, randomise

GRAM, FOLDED = Choice("gram"), Choice("gram", True)
Options = dict[str, Any]
CASES: list[tuple[Options, Choice]] = [
    ({}, FOLDED),
    ({}, GRAM),
    ({"center": "keys"}, FOLDED),
    ({"center": "keys+mean", "bias": True}, GRAM),
    ({"reference_pixels": "running"}, GRAM),
    ({}, Choice("associative")),
    ({"view": "magnitude", "center": "keys"}, Choice("rank_one")),
    ({"attention": "softmax"}, Choice("fused")),
    ({"attention": "softmax"}, Choice("quadratic")),
]
DYNAMIC = torch.export.Dim.DYNAMIC
OPEN = {0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC}


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


def _block(options: Options, choice: Choice) -> scalednl.NonLocal2d:
    block = randomise(scalednl.NonLocal2d(8, heads=2, **options))
    if block.running_pixels is not None:
        block.running_pixels.fill_(30)
    return force(block, choice)


def _inputs(size: tuple[int, ...], kind: str) -> dict[str, Tensor]:
    if kind == "mask":
        mask = torch.rand(size[0], *size[2:]) > 0.3
        mask[:, 0] = True
        return {"mask": mask}
    return {"keys": torch.randn(size[0], 8, 3, 5)}


def _sizes(kind: str) -> dict[str, Any]:
    second = {"mask": {0: DYNAMIC, 1: DYNAMIC, 2: DYNAMIC}} if kind == "mask" else {"keys": OPEN}
    return {"x": OPEN, **second}


@pytest.mark.parametrize("kind", ["mask", "keys"])
@pytest.mark.parametrize(("options", "choice"), CASES[:1] + CASES[2:6], ids=str)
def test_compile_fullgraph(options: Options, choice: Choice, kind: str) -> None:
    """Compiled without a graph break: output, gradients and statistics are eager's."""
    block = _block(options, choice)
    eager = copy.deepcopy(block)
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    for size in [(3, 8, 4, 6), (3, 8, 6, 7)]:
        x, given = torch.randn(size, requires_grad=True), _inputs(size, kind)
        results = []
        for function, module in ((compiled, block), (eager, eager)):
            z = function(x, **given)
            results.append((z, *torch.autograd.grad(z.square().mean(), [x, *module.parameters()])))
        assert_close_all(results[0], results[1], 1e-4)
    for ours, theirs in zip(block.buffers(), eager.buffers(), strict=True):
        assert_close(ours.double(), theirs.double(), 1e-4)


@pytest.mark.parametrize("kind", ["mask", "keys"])
@pytest.mark.parametrize(("options", "choice"), CASES[1:], ids=str)
def test_export_with_open_sizes(options: Options, choice: Choice, kind: str) -> None:
    """An exported program takes the mask or the keys as an input, of any size."""
    block = _block(options, choice).eval()
    size = (2, 8, 6, 8)
    program = torch.export.export(
        block, (torch.randn(size),), _inputs(size, kind), dynamic_shapes=_sizes(kind)
    ).module()
    for other in [size, (1, 8, 5, 7), (3, 8, 16, 4)]:
        x, given = torch.randn(other), _inputs(other, kind)
        assert_close(program(x, **given), block(x, **given), 1e-4)


@pytest.mark.parametrize("kind", ["mask", "keys"])
@pytest.mark.parametrize(("options", "choice"), CASES[1:6:2] + CASES[7:8], ids=str)
def test_onnx_with_open_sizes(options: Options, choice: Choice, kind: str, tmp_path: Path) -> None:
    """onnxruntime gives eager's answer, also for an image of which nothing exists."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")
    block = _block(options, choice).eval()
    size, path = (2, 8, 6, 8), tmp_path / "block.onnx"
    torch.onnx.export(
        block,
        (torch.randn(size),),
        path,
        kwargs=_inputs(size, kind),
        dynamo=True,
        dynamic_shapes=_sizes(kind),
        verbose=False,
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    for other in [size, (1, 8, 5, 7), (3, 8, 16, 3)]:
        x, given = torch.randn(other), _inputs(other, kind)
        if kind == "mask" and other[0] == 3:
            given["mask"][1] = False
        values = (x, *given.values())
        feed = {name: value.numpy() for name, value in zip(names, values, strict=True)}
        (answer,) = session.run(None, feed)
        assert_close(torch.from_numpy(answer), block(x, **given), 1e-4)


class _Around(nn.Module):
    """A network that hands its mask to a block."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 1)
        self.block = _block({}, FOLDED).eval()

    def forward(self, image: Tensor, mask: Tensor) -> Tensor:
        return self.block(self.first(image), mask=mask)


def test_fx_keeps_the_mask() -> None:
    """In a graph of torch.fx the block is one node, with its mask."""
    model = _Around().eval()
    traced = torch.fx.symbolic_trace(model)
    image, mask = torch.randn(2, 3, 5, 6), torch.rand(2, 5, 6) > 0.4
    assert_close(traced(image, mask), model(image, mask), 1e-6)
    (node,) = [node for node in traced.graph.nodes if node.target == "block"]
    assert set(node.kwargs) == {"mask"}
