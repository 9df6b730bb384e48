"""The largest inputs that attention survives in float16 and bfloat16, and its error there.

python -m benchmarks.half_precision --quick

Each method is put behind the same four 1x1 convolutions (4 heads, He init), batch norm (weight 1)
and residual. x grows by powers of two, from standard deviation 1, until output or gradients are
not finite. In training the loss is sum(z w) / sqrt(numel) with a fixed w of deviation 1, times the
loss scale. In evaluation batch norm has the statistics of this x. Nothing is timed, so --repeats
has no effect.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.command import main
from benchmarks.linear_attentions import CrossCovariance, OtherAttention, ReluLinear
from benchmarks.records import (
    Dtype,
    HalfInput,
    HalfPrecisionRecord,
    HalfRow,
    HalfSetting,
    HalfSettings,
    Precision,
)
from scalednl.blocks import NonLocal2d
from scalednl.errors import CommandError
from scalednl.lab.bench.measure import relative_error
from scalednl.lab.bench.options import BenchOptions
from scalednl.lab.bench.session import Session
from scalednl.lab.console import print_table
from scalednl.ops import reference
from scalednl.ops.planner import Choice
from scalednl.options import Attention, Order, View

DTYPES: dict[Dtype, torch.dtype] = {"float16": torch.float16, "bfloat16": torch.bfloat16}
PRECISIONS: tuple[Precision, ...] = ("autocast", "float32 norm", "half")
"""float32 weights under autocast; half weights with batch norm in float32; all weights in half"""
HEADS, LARGEST, TOLERANCE, AGREEMENT = 4, 4096, 0.1, 1e-4
LOSS_SCALE = 8192.0
"""Tried beside 1 in float16 training under autocast"""
MAIN = HalfInput(8, 128, 16, "after ReLU")
OTHERS = (
    HalfInput(8, 128, 16, "zero mean"),
    HalfInput(2, 64, 32, "after ReLU"),
    HalfInput(2, 64, 32, "zero mean"),
)
"""Tried in float16 training under autocast only"""
QUICK = HalfInput(2, 32, 8, "after ReLU")
HEAD = [
    *("features", "method", "dtype", "precision", "mode", "finite", "right", "error", "float32"),
    "wrong first",
]


@dataclass(frozen=True)
class Method:
    """A module with the options that choose it."""

    name: str
    kind: type[NonLocal2d] = NonLocal2d
    attention: Attention = "scaled"
    view: View = "base"
    order: Order | Choice = "auto"

    def block(self, channels: int, device: str) -> NonLocal2d:
        """The module in float32; all methods have the same weights."""
        torch.manual_seed(0)
        return self.kind(
            channels,
            heads=HEADS,
            init="he",
            norm_init=1.0,
            attention=self.attention,
            view=self.view,
            order=self.order,
        ).to(device)

    @property
    def function(self) -> "Method":
        """The method that stands for all orders of the same function."""
        return Method("", self.kind, self.attention, self.view)


METHODS = (
    Method("scaled, auto"),
    Method("scaled, quadratic", order="quadratic"),
    Method("scaled, associative", order="associative"),
    Method("scaled, gram", order=Choice("gram", False)),
    Method("scaled, gram + norm", order=Choice("gram", True)),
    Method("scaled magnitude, rank_one", view="magnitude", order="rank_one"),
    Method("softmax, quadratic", attention="softmax", order="quadratic"),
    Method("softmax, fused", attention="softmax", order="fused"),
    Method("ReLU-linear", ReluLinear),
    Method("cross-covariance", CrossCovariance),
)


class Case(NamedTuple):
    """One input: which features, in which dtype, how large, for which mode."""

    features: HalfInput
    dtype: torch.dtype
    deviation: float
    training: bool
    device: str
    loss_scale: float = 1.0

    def tensors(self) -> tuple[Tensor, Tensor]:
        """x, and the gradient of the loss with respect to z."""
        f = self.features
        generator = torch.Generator().manual_seed(0)
        x, w = (torch.randn(f.batch, f.channels, f.side, f.side, generator=generator) for _ in "xw")
        if f.inputs == "after ReLU":
            x = x.relu()
        x, grad = self.deviation * x / x.std(), self.loss_scale * w / math.sqrt(w.numel())
        return x.to(self.device, self.dtype), grad.to(self.device, self.dtype)


def run(options: BenchOptions) -> HalfPrecisionRecord:
    """Search, print, and keep."""
    session = Session(HalfPrecisionRecord.KIND, options, "float16 and bfloat16")
    main_input, others = (QUICK, ()) if options.quick else (MAIN, OTHERS)
    agreement = {method.name: checked(method, main_input, session.device) for method in METHODS}
    rows = []
    for group in groups(main_input, others):
        with session.step(f"{group[0].features}, {group[0].dtype}, {_mode(group[0].training)}"):
            rows += [_row(method, one, session.device) for method in METHODS for one in group]
    record = HalfPrecisionRecord(
        **session.header(),
        settings=HalfSettings(HEADS, LARGEST, TOLERANCE),
        agreement=agreement,
        rows=tuple(rows),
    )
    print(
        f"Largest standard deviation of x, up to {LARGEST}, at which all is finite, and within\n"
        f"{TOLERANCE:.0%} of float64; branch error at deviation 1; float32 against the equations.\n"
    )
    print_table(HEAD, [_cells(row, agreement) for row in rows])
    session.finish(record, {})
    return record


def groups(main_input: HalfInput, others: Sequence[HalfInput]) -> list[list[HalfSetting]]:
    """What is tried; the settings of a group have the same exact results."""
    full = [
        [HalfSetting(main_input, dtype, precision, training) for precision in PRECISIONS]
        for dtype in DTYPES
        for training in (True, False)
    ]
    scaled = HalfSetting(main_input, "float16", "autocast", True, LOSS_SCALE)
    rest = [HalfSetting(features, "float16", "autocast", True) for features in others]
    return [*full, *([one] for one in (scaled, *rest))]


def checked(method: Method, features: HalfInput, device: str) -> float:
    """The largest error of a method in float32 against its literal form in float64."""
    x, grad = Case(features, torch.float32, 1.0, True, device).tensors()
    block = method.block(features.channels, device)
    found = results(block, x, grad)
    wide = copy.deepcopy(block).double()
    truth = results(wide, x.double(), grad.double(), literal=True)
    error = max(relative_error(found[name], truth[name]) for name in truth)
    if not error <= AGREEMENT:
        raise CommandError(
            f"{method.name} is {error:.1e} away from its equations in float32, so it is not "
            "tried in half precision: this is a bug, please report it"
        )
    return error


def literal_forward(block: NonLocal2d, x: Tensor) -> Tensor:
    """z in training mode by the equations, the attention map in full."""
    weights = [conv.weight.flatten(1) for conv in (block.theta, block.phi, block.g, block.out)]
    embeddings = [weight @ x.flatten(2) for weight in weights[:3]]
    if isinstance(block, OtherAttention):
        split = [v.unflatten(1, (block.heads, -1)) for v in embeddings]
        y = block.literal(*split).flatten(1, 2)
    else:
        y = reference.nonlocal_attention(
            *embeddings, heads=block.heads, attention=block.attention, view=block.view
        )
    norm = block.norm
    assert isinstance(norm, nn.BatchNorm2d)
    u = reference.batch_norm(weights[3] @ y, norm.weight, norm.bias, norm.eps)
    return x + u.view_as(x)


def results(
    block: NonLocal2d,
    x: Tensor,
    grad: Tensor,
    *,
    autocast: torch.dtype | None = None,
    literal: bool = False,
) -> dict[str, Tensor]:
    """z, and in training mode the gradients of x and of every weight, by name."""
    x = x.detach().requires_grad_(block.training)
    device = x.device.type
    with (
        torch.set_grad_enabled(block.training),
        torch.autocast(device, autocast, enabled=autocast is not None),
    ):
        z = literal_forward(block, x) if literal else block(x)
    if not block.training:
        return {"z": z}
    names, inputs = zip(("x", x), *block.named_parameters(), strict=True)
    found = torch.autograd.grad(z, inputs, grad)
    return {"z": z.detach(), **{f"gradient of {n}": v for n, v in zip(names, found, strict=True)}}


# One method after the other climbs the same deviations, so those of one climb are remembered.
@lru_cache(maxsize=LARGEST.bit_length())
def exact(function: Method, case: Case) -> tuple[dict[str, Tensor], Mapping[str, Tensor]]:
    """The results in float64, and the state of batch norm to evaluate with."""
    x, grad = (v.double() for v in case.tensors())
    block = function.block(case.features.channels, case.device).double()
    norm = block.norm
    assert isinstance(norm, nn.BatchNorm2d)
    if not case.training:
        norm.momentum = 1.0
        with torch.no_grad():
            block(x)
    return results(block.train(case.training), x, grad), norm.state_dict()


class HalfErrors(NamedTuple):
    """One result in half precision beside float64."""

    finite: bool
    branch: float
    """Relative error of z - x"""
    errors: dict[str, float]
    """Relative errors by name; those of z and of x's gradient without what rounding them costs"""


def measured(method: Method, case: Case, precision: Precision) -> HalfErrors:
    """A method's results in half precision against float64."""
    x, grad = case.tensors()
    truth, norm_state = exact(method.function, case)
    block = method.block(case.features.channels, case.device)
    assert block.norm is not None
    block.norm.load_state_dict(norm_state)
    if precision != "autocast":
        block.to(case.dtype)
    if precision == "float32 norm":
        block.norm.float().load_state_dict(norm_state)
    autocast = case.dtype if precision == "autocast" else None
    found = results(block.train(case.training), x, grad, autocast=autocast)
    residuals = {"z": x, "gradient of x": grad}
    errors, branch = {}, math.inf
    for name, value in found.items():
        residual = residuals.get(name)
        errors[name] = _error(value, truth[name], residual)
        if residual is not None:
            branch = errors[name] if name == "z" else branch
            errors[name] -= _error(truth[name].to(case.dtype), truth[name], residual)
    return HalfErrors(all(error < math.inf for error in errors.values()), branch, errors)


def _error(value: Tensor, truth: Tensor, residual: Tensor | None) -> float:
    """Relative to the truth without the residual, which both contain; infinite if not finite."""
    if not torch.isfinite(value).all():
        return math.inf
    part = truth if residual is None else truth - residual
    return ((value.double() - truth).norm() / part.norm()).item()


def _row(method: Method, setting: HalfSetting, device: str) -> HalfRow:
    """Climb until something is not finite."""
    finite: float | None = None
    right: float | None = None
    failure = ""
    deviation = 1.0
    first: HalfErrors | None = None
    while deviation <= LARGEST:
        case = Case(
            *(setting.features, DTYPES[setting.dtype], deviation),
            *(setting.training, device, setting.loss_scale),
        )
        outcome = measured(method, case, setting.precision)
        first = first or outcome
        worst = max(outcome.errors, key=lambda name: outcome.errors[name])
        error = outcome.errors[worst]
        if not failure and error > TOLERANCE:
            failure = f"{worst} " + (f"off by {error:.2g}" if outcome.finite else "not finite")
        if not outcome.finite:
            break
        finite = deviation
        right = right if failure else deviation
        deviation *= 2
    assert first is not None
    weights = [error for name, error in first.errors.items() if name.endswith(("weight", "bias"))]
    return HalfRow(
        *(method.name, setting, finite, right, failure),
        error=_number(first.branch),
        gradient_error=_number(max(weights)) if weights else None,
    )


def _number(error: float) -> float | None:
    return float(f"{error:.3g}") if error < math.inf else None


def _cells(row: HalfRow, agreement: Mapping[str, float]) -> list[str]:
    tried = row.setting
    scale = "" if tried.loss_scale == 1 else f", loss x{tried.loss_scale:.0f}"
    return [
        *(str(tried.features), row.method, tried.dtype, tried.precision),
        _mode(tried.training) + scale,
        *(_deviation(row.finite), _deviation(row.right)),
        "-" if row.error is None else f"{row.error:.1e}",
        f"{agreement[row.method]:.0e}",
        row.failure,
    ]


def _deviation(value: float | None) -> str:
    return "below 1" if value is None else f"{value:.0f}"


def _mode(training: bool) -> str:
    return "training" if training else "evaluation"


if __name__ == "__main__":
    main(run)
