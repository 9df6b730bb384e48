"""Exact softmax-free non-local blocks that pick their own multiplication order.

Names are imported when first used, so that the command line answers before torch is loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalednl import functional
    from scalednl.analysis.capture import capture_attention
    from scalednl.blocks import NonLocal1d, NonLocal2d, NonLocal3d, SinusoidalPosition2d
    from scalednl.config import (
        Experiment,
        ModelConfig,
        NonLocalConfig,
        PairsConfig,
        RecallConfig,
    )
    from scalednl.data.load import load_data
    from scalednl.export import ExportReport, export_model
    from scalednl.models.convert import ConversionReport, convert, load_foreign_state_dict
    from scalednl.models.insert import InsertionReport, insert_nonlocal
    from scalednl.models.registry import create_model, list_models
    from scalednl.models.weights import load_model, save_model
    from scalednl.ops.moments import Moments
    from scalednl.ops.planner import Plan

__version__ = "0.1.0"

__all__ = [
    "ConversionReport",
    "Experiment",
    "ExportReport",
    "InsertionReport",
    "ModelConfig",
    "Moments",
    "NonLocal1d",
    "NonLocal2d",
    "NonLocal3d",
    "NonLocalConfig",
    "PairsConfig",
    "Plan",
    "RecallConfig",
    "SinusoidalPosition2d",
    "capture_attention",
    "convert",
    "create_model",
    "export_model",
    "functional",
    "insert_nonlocal",
    "list_models",
    "load_data",
    "load_foreign_state_dict",
    "load_model",
    "save_model",
]

_HOMES = {
    "ConversionReport": "models.convert",
    "Experiment": "config",
    "ExportReport": "export",
    "InsertionReport": "models.insert",
    "ModelConfig": "config",
    "Moments": "ops.moments",
    "NonLocal1d": "blocks",
    "NonLocal2d": "blocks",
    "NonLocal3d": "blocks",
    "NonLocalConfig": "config",
    "PairsConfig": "config",
    "Plan": "ops.planner",
    "RecallConfig": "config",
    "SinusoidalPosition2d": "blocks",
    "capture_attention": "analysis.capture",
    "convert": "models.convert",
    "create_model": "models.registry",
    "export_model": "export",
    "insert_nonlocal": "models.insert",
    "list_models": "models.registry",
    "load_data": "data.load",
    "load_foreign_state_dict": "models.convert",
    "load_model": "models.weights",
    "save_model": "models.weights",
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "functional":
            return import_module("scalednl.functional")
        if name not in _HOMES:
            raise AttributeError(f"module 'scalednl' has no attribute {name!r}")
        return getattr(import_module(f"scalednl.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
