"""The formula of costs against what torch counts."""

from dataclasses import replace

import pytest
import torch

from scalednl.lab.config import Experiment
from scalednl.lab.counting import multiply_adds as counted
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.costs import (
    image_multiply_adds,
    multiply_adds,
    num_classes,
    paper_gpu_rate,
    training_multiply_adds,
)
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.recipes import recipes
from scalednl.models.registry import create_model


def _every_kind() -> list[Experiment]:
    """One experiment for each network, and one for each kind of block in the smallest."""
    kinds: dict[object, Experiment] = {}
    for scale in ("smoke", "paper"):
        for artefact in artefacts().values():
            for _, e in artefact.trainings(SCALES[scale]):
                kind = e.stack if e.model == "preresnet8" else None
                kinds.setdefault((e.model, kind), e)
    return list(kinds.values())


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.filterwarnings("ignore:init=0.0 makes a dead block")
def test_the_formula_counts_what_torch_counts() -> None:
    """For every network of the grids, and every kind of block, to the last multiply-add."""
    experiments = _every_kind()
    assert {e.model for e in experiments} >= {"preresnet8", "preresnet110", "wrn28_10"}
    for e in experiments:
        # torch's counter knows the fused order on "meta" alone, where large networks are slow; in
        # these the plain order multiplies as much, and smaller images do.
        small, stack = e.model == "preresnet8", e.stack
        if e.block.attention == "softmax" and not small:
            stack = replace(stack, block=replace(e.block, order="quadratic"))
        size, classes = (16, 14), num_classes(e)
        with torch.device("meta" if small else "cpu"), torch.no_grad():
            model = create_model(e.model, classes, stack, e.position).eval()
            images = torch.zeros(1, 3, *size)
            truth = counted(lambda model=model, images=images: model(images))  # type: ignore[misc]
        assert multiply_adds(e.model, e.stack, size, classes) == truth, (e.model, e.stack)


def test_a_training_is_three_passes_over_all_images() -> None:
    """Epochs, images and passes multiply; the paper's GPU needs its 62.37 ms for 128 images."""
    plain = recipes()["cifar10-preresnet56-plain"]
    total = training_multiply_adds(plain)
    assert total == 3 * image_multiply_adds(plain) * 50_000 * 164
    steps = 50_000 / 128 * 164
    assert total / paper_gpu_rate() == pytest.approx(steps * 0.06237)
