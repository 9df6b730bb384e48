"""Real peers: torchvision, timm and mmcv, or a skip that says what is missing."""

from types import ModuleType

import pytest

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
