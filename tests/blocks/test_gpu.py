"""The GPU path by construction, traced on fake tensors: see docs/gpu.md.

A traced program has shapes, dtypes and devices but no numbers, so whatever would make the host wait
for the device raises here.
"""

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)

import scalednl
from scalednl.lab.bench.measure import relative_error
from scalednl.ops import layout as layouts
from scalednl.ops.planner import Choice
from tests.fake_device import FakeDevice, Trace
from tests.support import LAYOUTS, force, randomise

Options = dict[str, Any]
FOLDED, GRAM, ASSOCIATIVE = Choice("gram", True), Choice("gram"), Choice("associative")
QUADRATIC, RANK_ONE, FUSED = Choice("quadratic"), Choice("rank_one"), Choice("fused")
VARIANTS: list[tuple[Options, Choice]] = [
    *(({}, choice) for choice in (FOLDED, GRAM, ASSOCIATIVE, QUADRATIC)),
    *(({"memory": "lean"}, choice) for choice in (FOLDED, GRAM)),
    *(({"bias": True}, choice) for choice in (FOLDED, GRAM, ASSOCIATIVE)),
    ({"bias": ("theta", "phi", "g")}, FOLDED),
    *(({"norm": False}, choice) for choice in (GRAM, ASSOCIATIVE)),
    *(({"center": "keys"}, choice) for choice in (FOLDED, GRAM, ASSOCIATIVE, QUADRATIC)),
    *(({"center": "keys+mean"}, choice) for choice in (FOLDED, GRAM, ASSOCIATIVE)),
    *(({"reference_pixels": "running"}, choice) for choice in (FOLDED, GRAM, ASSOCIATIVE)),
    *(({"reference_pixels": 50}, choice) for choice in (GRAM, ASSOCIATIVE)),
    *(({"attention": "mean"}, choice) for choice in (FOLDED, GRAM, ASSOCIATIVE)),
    *(({"view": "magnitude"}, choice) for choice in (RANK_ONE, ASSOCIATIVE, QUADRATIC)),
    ({"view": "magnitude", "center": "keys+mean"}, RANK_ONE),
    *(({"view": "direction"}, choice) for choice in (ASSOCIATIVE, QUADRATIC)),
    *(({"attention": "softmax"}, choice) for choice in (FUSED, QUADRATIC)),
    *(({"attention": "softmax", "view": view}, FUSED) for view in ("magnitude", "direction")),
    ({"attention": "softmax", "softmax_scale": "learned"}, FUSED),
    *(({"key_pool": "before"}, choice) for choice in (GRAM, ASSOCIATIVE)),
    ({"key_pool": "after"}, ASSOCIATIVE),
    ({"norm_layer": lambda n: nn.GroupNorm(2, n)}, GRAM),
    ({"norm_layer": lambda n: nn.BatchNorm2d(n, momentum=None)}, FOLDED),
    ({"norm_layer": lambda n: nn.BatchNorm2d(n, affine=False)}, FOLDED),
    ({"norm_layer": lambda n: nn.BatchNorm2d(n, track_running_stats=False)}, FOLDED),
]
GIVEN = ((), ("mask",), ("keys",), ("mask", "keys", "key_mask"))
SHAPE, OTHER = (2, 8, 6, 4), (2, 8, 4, 6)
HALVES = (torch.float16, torch.bfloat16)


def _named(variant: object) -> str:
    if isinstance(variant, dict):
        return ",".join(f"{k}={getattr(v, '__name__', v)}" for k, v in variant.items())
    return str(variant)


def _block(device: FakeDevice, options: Options, choice: Choice) -> scalednl.NonLocal2d:
    made = {"heads": 2, "norm_init": 0.0 if options.get("norm") is False else 1.0, **options}
    block = scalednl.NonLocal2d(8, device="meta", **made)
    return force(device.module(block), choice)


def _given(device: FakeDevice, names: tuple[str, ...], dtype: torch.dtype) -> Options:
    masks = {
        "mask": (SHAPE[0], *SHAPE[2:]),
        "key_mask": (OTHER[0], *OTHER[2:]),
    }
    return {
        name: device.tensor(*OTHER, dtype=dtype).requires_grad_()
        if name == "keys"
        else device.tensor(*masks[name], dtype=torch.bool)
        for name in names
    }


def _possible(options: Options, names: tuple[str, ...]) -> bool:
    """Whether a block takes masks: not beside pooled keys, nor with a norm that is not batch norm.

    torch's own batch norm without momentum asks for a number wherever it is called.
    """
    if "key_pool" in options:
        return "mask" not in names and "key_mask" not in names
    made = options.get("norm_layer", nn.BatchNorm2d)(8)
    if isinstance(made, nn.BatchNorm2d):
        return made.momentum is not None or "keys" not in names
    return "mask" not in names


def _cases() -> list[tuple[Options, Choice, tuple[str, ...]]]:
    return [
        (options, choice, names)
        for options, choice in VARIANTS
        for names in GIVEN
        if _possible(options, names)
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("options", "choice", "names"), _cases(), ids=_named)
def test_nothing_waits_for_the_device(
    options: Options, choice: Choice, names: tuple[str, ...], dtype: torch.dtype
) -> None:
    """No training step asks for a number of a tensor, and none computes in float64."""
    device = FakeDevice("meta")
    block = _block(device, {**options, "dtype": dtype}, choice)
    x = device.tensor(*SHAPE, dtype=dtype).requires_grad_()
    given = _given(device, names, dtype)
    with device.traced() as trace:
        z = block(x, **given)
        inputs = [x, *(t for t in given.values() if t.requires_grad), *block.parameters()]
        torch.autograd.grad(z, inputs, torch.empty_like(z), allow_unused=True)
    _check_devices(trace)


@pytest.mark.parametrize(("options", "choice", "names"), _cases(), ids=_named)
def test_evaluation_waits_for_nothing(
    options: Options, choice: Choice, names: tuple[str, ...]
) -> None:
    """Neither does forward in evaluation."""
    device = FakeDevice("meta")
    block = _block(device, options, choice).eval()
    with device.traced() as trace, torch.no_grad():
        block(device.tensor(*SHAPE), **_given(device, names, torch.float32))
    _check_devices(trace)


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_moments_stay_on_the_device(training: bool) -> None:
    """Tiles, their merge and the block applied to them ask for no number either."""
    device = FakeDevice("meta")
    block = _block(device, {"reference_pixels": "running"}, GRAM).train(training)
    mask = device.tensor(SHAPE[0], *SHAPE[2:], dtype=torch.bool)
    with device.traced() as trace, torch.no_grad():
        moments = scalednl.Moments().update(device.tensor(*SHAPE), mask)
        moments.merge(scalednl.Moments().update(device.tensor(*SHAPE)))
        block.apply_moments(device.tensor(*SHAPE), moments)
    _check_devices(trace)


def test_what_does_wait_for_the_device() -> None:
    """Three of the four things that docs/gpu.md names; the last, `Moments.all_reduce`, needs ranks.

    A function or a norm of the user's is called with the pixels of a mask alone, and torch's batch
    norm without momentum computes its share on the host.
    """
    scalednl.register_attention(name="own")(lambda theta, phi: theta @ phi.mT)
    own = scalednl.NonLocal2d(8, attention="own", device="meta")
    hooked = scalednl.NonLocal2d(8, device="meta")
    assert hooked.norm is not None
    hooked.norm.register_forward_hook(lambda *_: None)
    without = scalednl.NonLocal2d(
        8, order="associative", norm_layer=lambda n: nn.BatchNorm2d(n, momentum=None), device="meta"
    )
    for block, given in ((own, ("mask",)), (hooked, ("mask",)), (without, ())):
        device = FakeDevice("meta")
        x, masks = device.tensor(*SHAPE), _given(device, given, torch.float32)
        device.module(block)
        with device.traced(), torch.no_grad():
            with pytest.raises((DataDependentOutputException, DynamicOutputShapeException)):
                block(x, **masks)
            block.eval()(x)


def _check_devices(trace: Trace) -> None:
    assert torch.float64 not in trace.dtypes()
    devices = {t.device.type for call in trace.calls for t in (*call.inputs, *call.outputs)}
    assert devices == {"meta"}, "some tensor was made on the host"


@pytest.fixture
def _as_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake device multiplies halves into float32, as CUDA does."""
    monkeypatch.setattr(layouts, "_on_cuda", lambda t: t.device.type == "meta")


@pytest.mark.usefixtures("_as_on_cuda")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("memory", ["auto", "lean"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("fold", [True, False], ids=["gram + norm", "gram"])
def test_halves_are_summed_in_float32_without_a_cast(
    fold: bool, dtype: torch.dtype, memory: str, layout: str
) -> None:
    """Forward and backward of the gram order: no map is cast or copied.

    The two products over pixels, x x^T and dz x^T, give float32.
    """
    device = FakeDevice("meta")
    block = _block(device, {"dtype": dtype, "memory": memory}, Choice("gram", fold))
    x, grad = (device.tensor(*SHAPE, dtype=dtype, layout=layout) for _ in range(2))
    x.requires_grad_()
    with device.traced() as trace:
        torch.autograd.grad(block(x), [x, *block.parameters()], grad)
    assert not _copies(trace, x)
    assert _products_into_float32(trace) == 2


@pytest.mark.usefixtures("_as_on_cuda")
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_evaluation_and_moments_in_half(dtype: torch.dtype) -> None:
    """Evaluation and `Moments` cast no map either."""
    device = FakeDevice("meta")
    block = _block(device, {"dtype": dtype}, GRAM).eval()
    x = device.tensor(*SHAPE, dtype=dtype)
    with device.traced() as trace, torch.no_grad():
        block(x)
        scalednl.Moments().update(x)
    assert not _copies(trace, x)
    assert _products_into_float32(trace) == 2


@pytest.mark.usefixtures("_as_on_cuda")
def test_autograd_and_float16_sums_need_the_cast(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product into float32 is not used where it has no derivative or torch refuses it."""
    device = FakeDevice("meta")
    x = device.tensor(*SHAPE, dtype=torch.float16)
    biased = _block(device, {"dtype": torch.float16, "bias": True}, GRAM)
    plain = _block(device, {"dtype": torch.float16}, GRAM)
    with device.traced() as trace:
        biased(x.clone().requires_grad_()).sum().backward()
        with torch.no_grad():
            assert _products_into_float32(trace) == 0
            monkeypatch.setattr(torch.backends, "cuda", _Backend(allows=True))
            plain(x)
            assert _products_into_float32(trace) == 0
            monkeypatch.setattr(torch.backends, "cuda", _Backend(allows=False))
            plain(x)
            assert _products_into_float32(trace) == 1


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("fold", [True, False], ids=["gram + norm", "gram"])
@pytest.mark.parametrize("offset", [0.0, 30.0], ids=["zero mean", "mean 30 deviations"])
def test_the_product_into_float32_gives_what_the_cast_gives(
    fold: bool, dtype: torch.dtype, offset: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values and gradients are nearly as close to float64 as those of cast maps, x near 0 or not.

    With a large mean, S = x x^T - N m m^T must not lose more digits than half precision has.
    """
    torch.manual_seed(0)
    block = randomise(scalednl.NonLocal2d(16, norm_init=1.0)).to(dtype)
    force(block, Choice("gram", fold))
    x = (0.1 * (torch.randn(2, 16, 24, 24) + offset)).to(dtype).requires_grad_()
    grad = torch.randn(2, 16, 24, 24).to(dtype)

    def step(block: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
        z = block(x)
        return (z - x, *torch.autograd.grad(z, [x, *block.parameters()], grad.to(x.dtype)))

    truth, cast = step(copy.deepcopy(block).double(), x.double()), step(block, x)
    used = []
    plain = torch.bmm

    def bmm(left: Tensor, right: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
        if out_dtype is None:
            return plain(left, right)
        used.append(out_dtype)
        return plain(left.to(out_dtype), right.to(out_dtype))

    monkeypatch.setattr(layouts, "_on_cuda", lambda t: t.device.type == "cpu")
    monkeypatch.setattr(torch, "bmm", bmm)
    wide = step(block, x)
    assert used == [torch.float32] * 2
    for exact, before, now in zip(truth, cast, wide, strict=True):
        bound = 1.5 * relative_error(before, exact) + torch.finfo(dtype).eps / 8
        assert relative_error(now, exact) < bound


class _Backend:
    """torch.backends.cuda, as far as the product asks it."""

    def __init__(self, *, allows: bool) -> None:
        self.matmul = SimpleNamespace(allow_fp16_accumulation=allows)


def _copies(trace: Trace, x: Tensor) -> list[str]:
    return [call.name for call in trace.calls if call.copies(x.numel())]


def _products_into_float32(trace: Trace) -> int:
    calls = [call for call in trace.calls if (call.name, call.overload) == ("bmm", "dtype")]
    assert all(call.outputs[0].dtype == torch.float32 for call in calls)
    return len(calls)


LAUNCHES: dict[str, tuple[Options, Choice, tuple[int, int]]] = {
    "gram + norm": ({}, FOLDED, (135, 16)),
    "gram + norm, lean": ({"memory": "lean"}, FOLDED, (147, 16)),
    "gram": ({}, GRAM, (33, 16)),
    "gram, lean": ({"memory": "lean"}, GRAM, (34, 16)),
    "associative": ({}, ASSOCIATIVE, (30, 19)),
    "softmax fused": ({"attention": "softmax"}, FUSED, (17, 13)),
}
"""Operators of a training step and of evaluation, channels_last"""


@pytest.mark.parametrize("name", LAUNCHES)
def test_how_many_operators_a_step_runs(name: str) -> None:
    """Operators that compute, as the dispatcher runs them: on a GPU, about as many launches.

    Counted for a block with batch norm, forward and backward, and for one forward in evaluation.
    Lower a number with pride; a higher one needs a reason.
    """
    options, choice, expected = LAUNCHES[name]
    assert (len(_step(options, choice, "channels_last")), _evaluation(options, choice)) == expected


COPIES = {
    ("gram + norm", "nchw"): 0,
    ("gram + norm", "channels_last"): 0,
    ("gram", "nchw"): 0,
    ("gram", "channels_last"): 0,
    ("associative", "nchw"): 1,
    ("associative", "channels_last"): 7,
    ("softmax fused", "nchw"): 3,
    ("softmax fused", "channels_last"): 0,
}
"""Copies of maps in a training step: heads are no view of channels_last rows in a batched product,
and torch's fused attention reads rows of channels only"""


@pytest.mark.parametrize(("name", "layout"), COPIES)
def test_how_many_maps_a_step_copies(name: str, layout: str) -> None:
    """The gram order copies no map in either layout, the others as many as written above."""
    options, choice, _ = LAUNCHES[name]
    copied = [call for call in _step(options, choice, layout) if call.copies(8 * 64 * 16 * 16)]
    assert len(copied) == COPIES[name, layout]


def _step(options: Options, choice: Choice, layout: str) -> list[Any]:
    """The calls of forward and backward of a block on 8 maps of 64 channels."""
    device = FakeDevice("cpu")
    block = force(device.module(scalednl.NonLocal2d(64, device="meta", **options)), choice)
    x, grad = (device.tensor(8, 64, 16, 16, layout=layout) for _ in range(2))
    x.requires_grad_()
    with device.traced() as trace:
        torch.autograd.grad(block(x), [x, *block.parameters()], grad)
    return trace.calls


def _evaluation(options: Options, choice: Choice) -> int:
    device = FakeDevice("cpu")
    block = force(device.module(scalednl.NonLocal2d(64, device="meta", **options)), choice)
    x: Tensor = device.tensor(8, 64, 16, 16, layout="channels_last")
    with device.traced() as trace, torch.no_grad():
        block.eval()(x)
    return len(trace.calls)


def test_the_page_has_these_numbers() -> None:
    """The table of docs/gpu.md is the one above."""
    page = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text(encoding="utf-8")
    table = page.partition("<!-- launches -->")[2].partition("<!-- end -->")[0]
    rows = [f"| {name} | {step} | {once} |" for name, (*_, (step, once)) in LAUNCHES.items()]
    assert table.strip().splitlines()[2:] == rows
