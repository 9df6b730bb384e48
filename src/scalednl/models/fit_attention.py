"""The attention that gives y from theta, phi and g: fitted, not guessed.

How y depends on the number of keys of two maps tells 1/N, 1/sqrt(N d) and 1/sqrt(d) apart, whatever
the widths are. A constant factor, or the scale inside a softmax, is solved for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isclose, isfinite
from typing import Any

from torch import Tensor

from scalednl.ops import reference
from scalednl.options import USUAL_POOL, VIEWS, PoolSize

TOLERANCE = 1e-5
"""Largest relative difference; an epsilon of a foreign block may cost that much"""
_STARTS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class Function:
    """The options of ours that compute what a foreign block does, up to a factor of y."""

    attention: str
    view: str
    heads: int
    key_pool: str | None
    key_pool_size: PoolSize = USUAL_POOL
    scale: bool = True
    softmax_scale: str | float = "embed"
    factor: float = 1.0

    def options(self, attention: str) -> dict[str, Any]:
        """The block's keyword arguments, with this attention or another."""
        kept = {"scale": self.scale, "softmax_scale": self.softmax_scale}
        return {
            "attention": attention,
            "view": self.view,
            "heads": self.heads,
            "key_pool": self.key_pool,
            "key_pool_size": self.key_pool_size,
            **(kept if attention == self.attention else {}),
        }


@dataclass(frozen=True)
class Seen:
    """Embeddings and y of one trial, pixels in one axis; phi and g for every pooling and size."""

    theta: Tensor
    keys: dict[tuple[str | None, PoolSize], tuple[Tensor, Tensor]]
    y: Tensor


def functions(seen: Sequence[Seen], channels: int) -> Iterator[Function]:
    """The options of ours that give y for all maps; usually none or one."""
    widths = {seen[0].theta.shape[1], seen[0].y.shape[1]}
    width = max(widths)
    # Where g has another width, the narrower embeddings are padded: the heads would get mixed.
    heads = [n for n in range(1, width + 1) if width % n == 0 and (n == 1 or len(widths) == 1)]
    for view, pool, number in product(VIEWS, seen[0].keys, heads):
        fits = []
        for one in seen:
            fit = _fit(one.theta, *one.keys[pool], one.y, number, view)
            if fit is None:
                break
            fits.append(fit)
        if len(fits) == len(seen):
            base = Function("", view, number, *pool)
            yield from _named(base, fits, width // number, channels)


@dataclass(frozen=True)
class _Fit:
    """y = value (theta . phi) g, or y = softmax(value theta . phi) g, on one map."""

    softmax: bool
    value: float
    keys: int


def _fit(theta: Tensor, phi: Tensor, g: Tensor, y: Tensor, heads: int, view: str) -> _Fit | None:
    keys = phi.shape[2]
    dot = reference.attention_map(theta, phi, heads=heads, attention="mean", view=view) * keys  # type: ignore[arg-type]
    values, truth = (v.unflatten(1, (heads, -1)).mT for v in (g, y))
    linear = dot @ values
    factor = float((linear * truth).sum() / linear.square().sum())
    if relative(factor * linear, truth) <= TOLERANCE:
        return _Fit(False, factor, keys)
    temperature = _fit_temperature(dot, values, truth)
    if relative((temperature * dot).softmax(-1) @ values, truth) <= TOLERANCE:
        return _Fit(True, temperature, keys)
    return None


def _fit_temperature(dot: Tensor, values: Tensor, truth: Tensor) -> float:
    """The t with which softmax(t dot) values comes nearest to `truth` (Gauss-Newton)."""
    starts = [start / max(float(dot.std()), 1e-300) for start in _STARTS]
    t = min(starts, key=lambda start: relative((start * dot).softmax(-1) @ values, truth))
    for _ in range(30):
        a = (t * dot).softmax(-1)
        slope = (a * (dot - (a * dot).sum(-1, keepdim=True))) @ values
        step = float(((truth - a @ values) * slope).sum() / slope.square().sum())
        if not isfinite(step):
            break
        t += step
        if abs(step) <= 1e-15 * abs(t):
            break
    return t


def _named(base: Function, fits: Sequence[_Fit], width: int, channels: int) -> Iterator[Function]:
    """The function that all fits belong to; none if they contradict each other."""
    if len({fit.softmax for fit in fits}) > 1:
        return
    if fits[0].softmax:
        if (t := _constant([fit.value for fit in fits])) is not None:
            names: dict[str | float, float] = {
                "embed": width**-0.5,
                "channels": channels**-0.5,
                1.0: 1.0,
            }
            scale = next((name for name, value in names.items() if _equal(t, value)), t)
            yield replace(base, attention="softmax", softmax_scale=scale)
        return
    for attention, scale, power in (
        ("mean", True, 1.0),
        ("scaled", True, 0.5),
        ("scaled", False, 0.0),
    ):
        d = 1 if attention == "mean" else width
        factor = _constant([fit.value * fit.keys**power * d**0.5 for fit in fits])
        if factor is not None:
            factor = 1.0 if _equal(factor, 1.0) else factor
            yield replace(base, attention=attention, scale=scale, factor=factor)


def _constant(values: Sequence[float]) -> float | None:
    """The value that all of them have, or None."""
    return values[-1] if all(_equal(value, values[-1]) for value in values) else None


def relative(value: Tensor, truth: Tensor, floor: float = 1e-300) -> float:
    """|value - truth| / |truth|."""
    return float((value - truth).norm() / truth.norm().clamp_min(floor))


def _equal(a: float, b: float) -> bool:
    return isclose(a, b, rel_tol=TOLERANCE)
