"""Packages that an integration needs and the base install leaves out."""

from importlib import import_module
from types import ModuleType


def require(module: str, *, used_by: str, install: str) -> ModuleType:
    """Import a module; raise with the line to type where its package is missing."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ImportError(
            f"{used_by} needs {package}, which is not installed: pip install {install}",
            name=package,
        ) from None
