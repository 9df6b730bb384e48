"""The lab: data, training, sweeps, statistics and the report that judge the paper's claims.

It stands on the library and needs the extra `lab`. What the commands do, a script can do with
these functions.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalednl.lab.config import Experiment, FolderConfig, PairsConfig, RecallConfig, RunSettings
    from scalednl.lab.data.load import load_data
    from scalednl.lab.recipes import find_recipe
    from scalednl.lab.report.write import write_report as build_report
    from scalednl.lab.sweep.reproduce import ReproduceOptions, reproduce
    from scalednl.lab.training.run import run as train

__all__ = [
    "Experiment",
    "FolderConfig",
    "PairsConfig",
    "RecallConfig",
    "ReproduceOptions",
    "RunSettings",
    "build_report",
    "find_recipe",
    "load_data",
    "reproduce",
    "train",
]

_HOMES = {
    "Experiment": ("config", "Experiment"),
    "FolderConfig": ("config", "FolderConfig"),
    "PairsConfig": ("config", "PairsConfig"),
    "RecallConfig": ("config", "RecallConfig"),
    "ReproduceOptions": ("sweep.reproduce", "ReproduceOptions"),
    "RunSettings": ("config", "RunSettings"),
    "build_report": ("report.write", "write_report"),
    "find_recipe": ("recipes", "find_recipe"),
    "load_data": ("data.load", "load_data"),
    "reproduce": ("sweep.reproduce", "reproduce"),
    "train": ("training.run", "run"),
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'scalednl.lab' has no attribute {name!r}")
        module, attribute = _HOMES[name]
        return getattr(import_module(f"scalednl.lab.{module}"), attribute)


def __dir__() -> list[str]:
    return __all__
