"""Shapes in signatures are checked while tests run; threads and seeds are fixed so runs compare.

The checks wrap every function of the package, which torch.compile and torch.export cannot trace
through. So `tests/traced` runs without them, in a process of its own: see `test_traced.py`.
"""

import gc
import os
from collections.abc import Iterator

import jaxtyping
import pytest

import tests.typecheck

CHECKED = [
    *(f"scalednl.{room}" for room in ("ops", "blocks", "functional", "models", "inspection")),
    *(f"scalednl.lab.{room}" for room in ("stats", "data", "training", "attention")),
]
"""Rooms whose signatures state shapes; what has none is left to mypy, which costs no time here"""
SHAPES_CHECKED = os.environ.get("SCALEDNL_SHAPE_CHECKS") != "0"
if SHAPES_CHECKED:
    jaxtyping.install_import_hook(CHECKED, f"{tests.typecheck.__name__}.checked")
    collect_ignore = ["traced"]

import torch  # noqa: E402

from scalednl.attentions import ATTENTIONS  # noqa: E402
from scalednl.lab import user_code  # noqa: E402
from scalednl.models import foreign_network  # noqa: E402

LONG_FILES = (
    "tests/test_traced.py",
    "tests/lab/report/test_hostile.py",
    "tests/lab/sweep/test_engine_ray.py",
    "tests/lab/training/test_processes.py",
    "tests/lab/sweep/test_reproduce.py",
    "tests/ops/gram/test_backward.py",
)
"""Files that take longest: workers begin with these, so that none is left with one at the end"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first; the others stay in their order."""
    ranks = {name: rank for rank, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))


def pytest_collection_finish() -> None:
    """What is imported stays: the garbage collector need not look through it again and again.

    Tracing and exporting make so many objects that this takes a fifth of their time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Two busy processes with two threads each slow each other many times over."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _same_attentions() -> Iterator[None]:
    """What a test registers, or loads from a file, is gone after it."""
    attentions, files = dict(ATTENTIONS), dict(user_code._loaded)
    builders = dict(foreign_network._builders)
    yield
    ATTENTIONS.clear()
    ATTENTIONS.update(attentions)
    user_code._loaded.clear()
    user_code._loaded.update(files)
    foreign_network._builders.clear()
    foreign_network._builders.update(builders)


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Shape checks off, as for users: wrong input then meets the package's own errors."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
