"""A run directory made without training, for tests that look at networks."""

from pathlib import Path
from typing import Any

import torch

import scalednl
from scalednl.config import NonLocalConfig
from scalednl.lab.records.run import RunFolder, RunSetup
from tests.lab.training.builders import small
from tests.support import randomise


def made_run(path: Path, **block: Any) -> Path:
    """A run of the small experiment, its network with random weights that matter."""
    torch.manual_seed(0)
    # An order that is given needs no plan, which shape checks make slow.
    order = "fused" if block.get("attention") == "softmax" else "associative"
    options = {"blocks": 2, "norm_init": 1.0, "order": order, **block}
    experiment = small(block=NonLocalConfig(**options))
    path.mkdir(parents=True)
    run = RunFolder(path)
    run.write_config(experiment, RunSetup())
    classes = experiment.pairs.orientations
    model = scalednl.create_model(experiment.model, classes, experiment.block, experiment.position)
    if model.stack is not None:
        randomise(model.stack)
    scalednl.save_model(model, run.weights)
    return path
