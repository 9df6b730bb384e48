"""torch.compile, torch.export and ONNX, at sizes that were not traced too."""

import copy
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import scalednl
from scalednl.ops.planner import Choice
from tests.support import assert_close, assert_close_all, force, randomise

GRAM = [Choice("gram", True), Choice("gram", False)]
SCALED = [*GRAM, Choice("associative", False), Choice("quadratic", False)]
Options = dict[str, object]
VARIANTS: list[tuple[Options, Choice]] = [
    *(({}, choice) for choice in SCALED),
    ({"memory": "lean"}, GRAM[0]),
    ({"bias": True}, GRAM[1]),
    ({"bias": ("theta", "phi", "g")}, GRAM[0]),
    ({"key_pool": "before"}, GRAM[1]),
    ({"view": "magnitude"}, Choice("rank_one", False)),
    ({"view": "magnitude"}, Choice("associative", False)),
    ({"view": "direction"}, Choice("associative", False)),
    ({"attention": "softmax"}, Choice("fused", False)),
    ({"attention": "softmax"}, Choice("quadratic", False)),
    ({"attention": "mean"}, GRAM[1]),
    ({"center": "keys"}, GRAM[0]),
    ({"center": "keys+mean"}, GRAM[1]),
    ({"reference_pixels": 50}, SCALED[2]),
    ({"reference_pixels": "running"}, GRAM[1]),
]
EVALUATED = VARIANTS[1:]
"""Without the first, which folds its norm in training only and is then the second"""
POOL_OF_3: tuple[Options, Choice] = ({"key_pool": "after", "key_pool_size": 3}, SCALED[2])


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


def _block(options: Options, choice: Choice) -> scalednl.NonLocal2d:
    block = randomise(scalednl.NonLocal2d(8, heads=2, **options))  # type: ignore[arg-type]
    return force(block, choice)


def _step(function: Callable[..., Tensor], block: torch.nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    z = function(x)
    return (z, *torch.autograd.grad(z.square().mean(), [x, *block.parameters()]))


@pytest.mark.parametrize(("options", "choice"), [*VARIANTS, POOL_OF_3], ids=str)
def test_compile_fullgraph(options: Options, choice: Choice) -> None:
    """The block compiles without a graph break, for one size and then, as torch does, for any.

    Output, gradients and statistics are eager's.
    """
    block = _block(options, choice)
    eager = copy.deepcopy(block)
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    for size in [(4, 6), (6, 8)]:
        x = torch.randn(3, 8, *size, requires_grad=True)
        assert_close_all(_step(compiled, block, x), _step(eager, eager, x), 1e-4)
    for ours, theirs in zip(block.buffers(), eager.buffers(), strict=True):
        assert_close(ours, theirs, 1e-4)
    x = torch.randn(2, 8, 5, 7)
    with torch.no_grad():
        block.eval()
        assert_close(compiled(x), eager.eval()(x), 1e-4)


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler (g++)")
@pytest.mark.parametrize("choice", GRAM, ids=str)
def test_compile_with_inductor(choice: Choice) -> None:
    """Compiled to machine code, a training step is eager's."""
    block = _block({}, choice)
    eager = copy.deepcopy(block)
    compiled = torch.compile(block, fullgraph=True)
    x = torch.randn(3, 8, 4, 6).to(memory_format=torch.channels_last).requires_grad_()
    assert_close_all(_step(compiled, block, x), _step(eager, eager, x), 1e-4)


def test_compiling_an_automatic_order_with_open_sizes() -> None:
    """With sizes left open, order="auto" takes the order for large maps and never recompiles."""
    block = randomise(scalednl.NonLocal2d(64)).eval()
    assert block.plan((1, 64, 2, 2)).order != "gram"
    x = torch.randn(2, 64, 16, 16)
    torch._dynamo.mark_dynamic(x, 2, min=2, max=1024)
    torch._dynamo.mark_dynamic(x, 3, min=2, max=1024)
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert_close(compiled(x), block(x), 1e-4)
        with torch.compiler.set_stance("fail_on_recompile"):
            for size in [(2, 3), (5, 40), (64, 9)]:
                x = torch.randn(2, 64, *size)
                assert_close(compiled(x), block(x), 1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("choice", GRAM, ids=str)
def test_compile_under_autocast(choice: Choice, dtype: torch.dtype) -> None:
    """Compiled inside autocast, a float32 x gives eager's output, and gradients up to rounding.

    The gradients are looser because torch runs a compiled backward under autocast.
    """
    block = force(scalednl.NonLocal2d(16, norm_init=1.0), choice)
    eager = copy.deepcopy(block)
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    x = (torch.randn(2, 16, 32, 32) + 1).requires_grad_()
    grad = torch.randn_like(x)
    results = []
    for function, module in ((compiled, block), (eager, eager)):
        with torch.autocast("cpu", dtype=dtype):
            z = function(x)
        results.append((z, *torch.autograd.grad(z, [x, *module.parameters()], grad)))
    assert_close(results[0][0], results[1][0], 1e-5)
    assert_close_all(results[0][1:], results[1][1:], 0.05)


def test_compiled_blocks_follow_their_state() -> None:
    """Mode, order, dtype and hooks may change after compiling: the order follows, as in eager."""
    block = randomise(scalednl.NonLocal2d(8, heads=2))
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 8, 24, 24)

    def check(x: Tensor) -> None:
        eager = copy.deepcopy(block)
        assert_close(compiled(x), eager(x), 1e-4)

    check(x)
    block.eval()
    check(x)
    block.order = Choice("associative")
    check(x)
    block.double()
    check(x.double())
    block.order = "auto"
    block.g.register_forward_hook(lambda _module, _inputs, output: 2 * output)
    check(x.double())


def test_compiling_a_block_whose_norm_was_replaced() -> None:
    """A schedule that was not made before is made while compiling."""
    block = scalednl.NonLocal2d(16)
    block.norm = torch.nn.GroupNorm(4, 16)
    eager = copy.deepcopy(block)
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 16, 8, 8)
    assert_close(compiled(x), eager(x), 1e-5)


@pytest.mark.parametrize("named", [{0: "b"}, {0: "b", 2: "h", 3: "w"}], ids=str)
def test_export_with_named_sizes(named: dict[int, str]) -> None:
    """Named, bounded dimensions are left open without a constraint on them."""
    block = randomise(scalednl.NonLocal2d(16)).eval()
    sizes = {axis: torch.export.Dim(name, min=2, max=64) for axis, name in named.items()}
    program = torch.export.export(block, (torch.randn(3, 16, 8, 8),), dynamic_shapes={"x": sizes})
    x = torch.randn(5, 16, 8, 8)
    assert_close(program.module()(x), block(x), 1e-4)


def _exported(block: torch.nn.Module, strict: bool) -> torch.export.ExportedProgram:
    dynamic = torch.export.Dim.DYNAMIC
    return torch.export.export(
        block,
        (torch.randn(2, 8, 6, 8),),
        dynamic_shapes={"x": {0: dynamic, 2: dynamic, 3: dynamic}},
        strict=strict,
    )


@pytest.mark.parametrize(
    ("options", "choice", "strict"),
    [*((*variant, False) for variant in EVALUATED), ({}, GRAM[0], True), ({}, SCALED[2], True)],
    ids=str,
)
def test_export_with_open_sizes(
    options: Options, choice: Choice, strict: bool, tmp_path: Path
) -> None:
    """An exported program, saved and loaded again, is right at sizes it was not traced at."""
    block = _block(options, choice).eval()
    torch.export.save(_exported(block, strict), tmp_path / "block.pt2")
    program = torch.export.load(tmp_path / "block.pt2").module()
    for size in [(2, 8, 6, 8), (1, 8, 5, 7), (3, 8, 16, 4)]:
        x = torch.randn(size)
        assert_close(program(x), block(x), 1e-4)


def test_export_of_another_pool_with_open_sizes() -> None:
    """Pooled by 3, an exported program is right at sizes with two keys or more along each axis."""
    block = _block(*POOL_OF_3).eval()
    program = _exported(block, strict=False).module()
    for size in [(2, 8, 6, 8), (1, 8, 7, 10), (3, 8, 16, 9)]:
        x = torch.randn(size)
        assert_close(program(x), block(x), 1e-4)


@pytest.mark.parametrize("order", ["auto", "associative", "quadratic"])
def test_export_never_forms_the_map_unless_asked(order: str) -> None:
    """Only the quadratic order's graph has a tensor of as many rows as columns as pixels."""
    block = scalednl.NonLocal2d(8, heads=2, order=order).eval()  # type: ignore[arg-type]
    program = torch.export.export(block, (torch.randn(1, 8, 11, 13),))
    values = [node.meta.get("val") for node in program.graph.nodes]
    shapes = [value.shape for value in values if isinstance(value, Tensor)]
    assert shapes
    square = [shape for shape in shapes if list(shape[-2:]) == [143, 143]]
    assert bool(square) == (order == "quadratic")


@pytest.mark.parametrize(("options", "choice"), EVALUATED, ids=str)
def test_onnx_with_open_sizes(options: Options, choice: Choice, tmp_path: Path) -> None:
    """onnxruntime gives eager's answer at five sizes, four of which were not traced."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")
    block = _block(options, choice).eval()
    path = tmp_path / "block.onnx"
    dynamic = torch.export.Dim.DYNAMIC
    torch.onnx.export(
        block,
        (torch.randn(2, 8, 6, 8),),
        path,
        dynamo=True,
        dynamic_shapes={"x": {0: dynamic, 2: dynamic, 3: dynamic}},
        verbose=False,
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    for size in [(2, 8, 6, 8), (1, 8, 5, 7), (3, 8, 16, 3), (1, 8, 33, 31), (2, 8, 2, 2)]:
        x = torch.randn(size)
        (answer,) = session.run(None, {name: x.numpy()})
        assert_close(torch.from_numpy(answer), block(x), 1e-4)
