"""What tests of trainings share."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.lab.training.runs import train


@pytest.fixture(autouse=True)
def _threads() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupts, for all that were."""
    path = tmp_path_factory.mktemp("whole") / "run"
    assert train(path).status == "finished"
    return path
