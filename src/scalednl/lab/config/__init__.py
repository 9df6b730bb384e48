"""Frozen configurations, checked when they are made. Imports no torch."""

from scalednl.lab.config.experiment import Experiment
from scalednl.lab.config.folder import FolderConfig
from scalednl.lab.config.generated import PairsConfig, RecallConfig
from scalednl.lab.config.settings import RunSettings

__all__ = [
    "Experiment",
    "FolderConfig",
    "PairsConfig",
    "RecallConfig",
    "RunSettings",
]
