"""Exact softmax-free non-local blocks that pick their own multiplication order.

This is the library: blocks, networks, and what their blocks look at. `scalednl.lab`, which trains
and judges the networks of the paper, stands on it and needs the extra `lab`.

Names are imported when first used, so that the command line answers before torch is loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalednl import functional
    from scalednl.attentions import AttentionKind, register_attention
    from scalednl.blocks import NonLocal1d, NonLocal2d, NonLocal3d, SinusoidalPosition2d
    from scalednl.config import BlockConfig, ModelConfig, StackConfig
    from scalednl.inspection.capture import capture_attention
    from scalednl.models.checkpoint import load_foreign_state_dict
    from scalednl.models.convert import ConversionReport, convert
    from scalednl.models.export import ExportReport, export_model
    from scalednl.models.insert import insert_nonlocal
    from scalednl.models.insertion_report import InsertionReport
    from scalednl.models.published import list_weights
    from scalednl.models.registry import create_model, list_models
    from scalednl.models.weights import load_model, save_model
    from scalednl.ops.moments import Moments
    from scalednl.ops.planner import Choice, Plan, use_constants

__version__ = "0.1.0"

__all__ = [
    "AttentionKind",
    "BlockConfig",
    "Choice",
    "ConversionReport",
    "ExportReport",
    "InsertionReport",
    "ModelConfig",
    "Moments",
    "NonLocal1d",
    "NonLocal2d",
    "NonLocal3d",
    "Plan",
    "SinusoidalPosition2d",
    "StackConfig",
    "capture_attention",
    "convert",
    "create_model",
    "export_model",
    "functional",
    "insert_nonlocal",
    "list_models",
    "list_weights",
    "load_foreign_state_dict",
    "load_model",
    "register_attention",
    "save_model",
    "use_constants",
]

_MODULES = {
    "attentions": ("AttentionKind", "register_attention"),
    "blocks": ("NonLocal1d", "NonLocal2d", "NonLocal3d", "SinusoidalPosition2d"),
    "config": ("BlockConfig", "ModelConfig", "StackConfig"),
    "inspection.capture": ("capture_attention",),
    "models.checkpoint": ("load_foreign_state_dict",),
    "models.convert": ("ConversionReport", "convert"),
    "models.export": ("ExportReport", "export_model"),
    "models.insert": ("insert_nonlocal",),
    "models.insertion_report": ("InsertionReport",),
    "models.published": ("list_weights",),
    "models.registry": ("create_model", "list_models"),
    "models.weights": ("load_model", "save_model"),
    "ops.moments": ("Moments",),
    "ops.planner": ("Choice", "Plan", "use_constants"),
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in ("functional", "lab"):
            return import_module(f"scalednl.{name}")
        for module, names in _MODULES.items():
            if name in names:
                return getattr(import_module(f"scalednl.{module}"), name)
        raise AttributeError(f"module 'scalednl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
