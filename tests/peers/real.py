"""Real peers: torchvision, timm and mmcv, or a skip that says what is missing."""

import importlib.util
import re
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

MISSING = "{} is not installed: run `make peers`"


@lru_cache(maxsize=1)
def _declare_torchvision_operators() -> Any:
    """Let a CUDA build of torchvision be imported beside a CPU build of torch.

    Its compiled operators cannot be loaded there, and importing it fails where it registers shapes
    for them. Declared by name, they may be registered; its models do not use them.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return None
    source = (Path(spec.origin).parent / "_meta_registrations.py").read_text()
    library = torch.library.Library("torchvision", "DEF")
    for name in set(re.findall(r"torchvision::(\w+)|register_meta\(\"(\w+)\"", source)):
        library.define(f"{name[0] or name[1]}(Tensor x) -> Tensor")
    return library


def torchvision_models() -> ModuleType:
    """torchvision.models."""
    _declare_torchvision_operators()
    return pytest.importorskip("torchvision.models", reason=MISSING.format("torchvision"))


def timm() -> ModuleType:
    """timm, which needs torchvision."""
    torchvision_models()
    return pytest.importorskip("timm", reason=MISSING.format("timm"))


def mmcv_cnn() -> ModuleType:
    """mmcv.cnn."""
    return pytest.importorskip("mmcv.cnn", reason=MISSING.format("mmcv"))
