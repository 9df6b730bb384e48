"""Exact softmax-free non-local blocks that pick their own multiplication order.

Names are imported when first used, so that the command line answers before torch is loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalednl import functional
    from scalednl.blocks import NonLocal1d, NonLocal2d, NonLocal3d, SinusoidalPosition2d
    from scalednl.ops.moments import Moments
    from scalednl.ops.planner import Plan

__version__ = "0.1.0"

__all__ = [
    "Moments",
    "NonLocal1d",
    "NonLocal2d",
    "NonLocal3d",
    "Plan",
    "SinusoidalPosition2d",
    "functional",
]

_HOMES = {
    "Moments": "scalednl.ops.moments",
    "NonLocal1d": "scalednl.blocks",
    "NonLocal2d": "scalednl.blocks",
    "NonLocal3d": "scalednl.blocks",
    "Plan": "scalednl.ops.planner",
    "SinusoidalPosition2d": "scalednl.blocks",
}


def __getattr__(name: str) -> Any:
    if name == "functional":
        return import_module("scalednl.functional")
    if name not in _HOMES:
        raise AttributeError(f"module 'scalednl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
