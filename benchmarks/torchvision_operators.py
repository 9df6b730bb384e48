"""A CUDA build of torchvision beside a CPU build of torch: its models can be used all the same."""

import importlib.util
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch


@lru_cache(maxsize=1)
def declare() -> Any:
    """Let torchvision be imported where its compiled operators cannot be loaded.

    Importing it fails there, where it registers shapes for them. Declared by name, they may be
    registered; its models do not use them. The library that is returned must stay alive.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return None
    source = (Path(spec.origin).parent / "_meta_registrations.py").read_text()
    library = torch.library.Library("torchvision", "DEF")
    for name in set(re.findall(r"torchvision::(\w+)|register_meta\(\"(\w+)\"", source)):
        library.define(f"{name[0] or name[1]}(Tensor x) -> Tensor")
    return library
