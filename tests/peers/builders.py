"""Real peers: torchvision, timm, mmcv, Ultralytics, or a skip that says what is missing."""

import os
from tempfile import TemporaryDirectory
from types import ModuleType
from unittest.mock import patch

import numpy as np
import pytest
import torch

from benchmarks import torchvision_operators

MISSING = "{} is not installed: run `make peers`"


def torchvision_models() -> ModuleType:
    """torchvision.models."""
    torchvision_operators.declare()
    return pytest.importorskip("torchvision.models", reason=MISSING.format("torchvision"))


def timm() -> ModuleType:
    """timm, which needs torchvision."""
    torchvision_models()
    return pytest.importorskip("timm", reason=MISSING.format("timm"))


def mmcv_cnn() -> ModuleType:
    """mmcv.cnn."""
    return pytest.importorskip("mmcv.cnn", reason=MISSING.format("mmcv"))


def ultralytics_tasks() -> ModuleType:
    """ultralytics.nn.tasks, imported without what the import changes for all other tests.

    It replaces torch.save, sets how arrays are printed, and writes settings to the user's folder.
    """
    torchvision_models()
    with (
        TemporaryDirectory() as settings,
        patch.dict(os.environ, YOLO_CONFIG_DIR=settings, YOLO_OFFLINE="true"),
        patch.object(torch, "save", torch.save),
        np.printoptions(),
    ):
        found = pytest.importorskip("ultralytics.nn.tasks", reason=MISSING.format("ultralytics"))
    torch.set_printoptions(profile="default")
    return found
