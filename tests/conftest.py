"""Shapes in signatures are checked while tests run; threads and seeds are fixed so runs compare.

The checks wrap every function of the package, which torch.compile and torch.export cannot trace
through. So `tests/traced` runs without them, in a process of its own: see `test_traced.py`.
"""

import os
from collections.abc import Iterator

import jaxtyping
import pytest

import tests.typecheck

SHAPES_CHECKED = os.environ.get("SCALEDNL_SHAPE_CHECKS") != "0"
if SHAPES_CHECKED:
    jaxtyping.install_import_hook("scalednl", f"{tests.typecheck.__name__}.checked")
    collect_ignore = ["traced"]

import torch  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def _two_threads() -> None:
    torch.set_num_threads(2)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Shape checks off, as for users: wrong input then meets the package's own errors."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
