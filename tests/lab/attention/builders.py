"""A run directory made without training, and its record as a reader decodes it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import scalednl
from scalednl.config import BlockConfig
from scalednl.lab.records.attention import Vectors
from scalednl.lab.records.run import RunFolder, RunSetup
from tests.lab.training.builders import small
from tests.support import randomise


def made_run(path: Path, blocks: int = 2, **block: Any) -> Path:
    """A run of the small experiment, its network with random weights that matter."""
    torch.manual_seed(0)
    # An order that is given needs no plan, which shape checks make slow.
    order = "fused" if block.get("attention") == "softmax" else "associative"
    options = {"norm_init": 1.0, "order": order, **block}
    experiment = small(block=BlockConfig(**options), blocks=blocks)
    path.mkdir(parents=True)
    run = RunFolder(path)
    run.write_config(experiment, RunSetup())
    classes = experiment.pairs.orientations
    model = scalednl.create_model(experiment.model, classes, experiment.stack, experiment.position)
    if model.stack is not None:
        randomise(model.stack)
    scalednl.save_model(model, run.weights)
    return path


def decode_rows(
    vectors: Vectors, head: int, queries: Sequence[int], *, softmax: bool
) -> npt.NDArray[np.float32]:
    """A_i = f theta_i . phi_j, or its softmax over j, as a browser computes it."""
    theta = _decoded(vectors.theta, vectors.theta_scale, vectors)
    phi = _decoded(vectors.phi, vectors.phi_scale, vectors)
    rows = np.float32(vectors.factor[head]) * theta[head, list(queries)] @ phi[head].T
    if not softmax:
        return rows
    powers = np.exp(rows - rows.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _decoded(numbers: bytes, scales: bytes, vectors: Vectors) -> npt.NDArray[np.float32]:
    """Vectors by head, pixel and channel."""
    whole = np.frombuffer(numbers, f"<i{vectors.bits // 8}").astype(np.float32)
    factors = np.frombuffer(scales, "<f4")
    heads = len(vectors.factor)
    return whole.reshape(heads, -1, vectors.width) * factors.reshape(heads, -1, 1)
