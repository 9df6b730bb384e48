"""Networks are opened with the same images for all, or refused with a reason."""

from pathlib import Path

import numpy as np
import pytest
import torch

import scalednl
from scalednl.errors import CommandError
from scalednl.lab.attention.record import record_run
from scalednl.lab.attention.source import chosen_images, open_source
from scalednl.lab.records.run import RunFolder
from tests.lab.attention.builders import made_run


def test_all_runs_show_the_same_images(tmp_path: Path) -> None:
    """Images depend on the data alone, not on block or seed; the first of each class come first."""
    first, second = (
        [
            picture.index
            for picture in open_source(made_run(tmp_path / name, attention=name)).pictures
        ]
        for name in ("scaled", "softmax")
    )
    assert first == second
    assert chosen_images(np.array([2, 2, 0, 1, 0, 2]), 5) == [2, 3, 0, 4, 1]


def test_networks_with_nothing_to_show(tmp_path: Path) -> None:
    """One without blocks, and one that computes NaN, are sentences."""
    with pytest.raises(CommandError, match=r"has nothing to show: .*no non-local block"):
        record_run(made_run(tmp_path / "plain", blocks=0))
    path = made_run(tmp_path / "run")
    model = scalednl.load_model(RunFolder(path).weights)
    torch.nn.init.constant_(model.get_parameter("stem.weight"), torch.nan)
    scalednl.save_model(model, RunFolder(path).weights)
    with pytest.raises(CommandError, match="run computes numbers that are not finite"):
        record_run(path)
