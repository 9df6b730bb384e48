"""Frozen configurations: what was asked for, checked when it is made. Imports no torch."""

from scalednl.config.experiment import Experiment
from scalednl.config.generated import PairsConfig, RecallConfig
from scalednl.config.model import ModelConfig, NonLocalConfig
from scalednl.config.settings import RunSettings

__all__ = [
    "Experiment",
    "ModelConfig",
    "NonLocalConfig",
    "PairsConfig",
    "RecallConfig",
    "RunSettings",
]
