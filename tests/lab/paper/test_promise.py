"""No unit of a network's last convolution sees both sides of a generated image."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from scalednl.config import StackConfig
from scalednl.lab.config import Experiment, PairsConfig, RecallConfig
from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.scales import SCALES
from scalednl.lab.recipes import recipes
from scalednl.models.registry import create_model
from scalednl.models.residual import ResidualNetwork

Flags = npt.NDArray[np.bool_]


def _used() -> dict[str, Experiment]:
    """Every network and generated data set that a recipe or the smoke scale joins."""
    smoke = [e for a in artefacts().values() for _, e in a.trainings(SCALES["smoke"])]
    found = [e for e in (*recipes().values(), *smoke) if e.generated is not None]
    return {f"{e.model}-{e.data}-{hash(e.generated)}": e for e in found}


def _plain(model: str) -> ResidualNetwork:
    return create_model(model, 4, StackConfig(count=0)).eval()


def _counted(network: ResidualNetwork) -> int:
    """Columns that a unit sees, from kernels and strides along the longest path."""
    field, jump = 1, 1
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d) and "shortcut" not in name:
            field += (module.kernel_size[1] - 1) * jump
            jump *= module.stride[1]
    return field


def _seen(network: ResidualNetwork, height: int, width: int) -> Flags:
    """For every unit before global pooling, the columns with a gradient: (units, columns).

    All weights and pixels are positive, so that every path is open and nothing cancels.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.constant_(module.weight, 0.01)
    images = torch.ones(1, 3, height, width, requires_grad=True)
    units = network.features(images).sum(1).flatten()
    rows = []
    for unit in units:
        (gradient,) = torch.autograd.grad(unit, images, retain_graph=True)
        rows.append((gradient != 0).any(2)[0].any(0).numpy())
    return np.stack(rows)


def _breaks(seen: Flags, config: PairsConfig | RecallConfig) -> bool:
    """Whether some unit sees a column of both gratings for some placement."""
    for left in range(config.jitter + 1):
        for right in range(config.jitter + 1):
            first = slice(left, left + config.patch)
            start = config.width - config.patch - right
            second = slice(start, start + config.patch)
            if (seen[:, first].any(1) & seen[:, second].any(1)).any():
                return True
    return False


@pytest.mark.parametrize("model", ["preresnet8", "preresnet14"])
def test_receptive_fields_are_what_gradients_reach(model: str) -> None:
    """Kernels and strides give the width of the widest support of d unit / d input."""
    network = _plain(model)
    field = _counted(network)
    assert _seen(network, 4, 2 * field).sum(1).max() == field
    if model == "preresnet8":
        assert field == 25


@pytest.mark.parametrize("name", _used())
def test_no_unit_sees_both_sides(name: str) -> None:
    """For every placement that the configuration allows, in the images' own size."""
    experiment = _used()[name]
    config = experiment.generated
    assert config is not None
    network = _plain(experiment.model)
    assert _counted(network) <= config.gap + 1
    seen = _seen(network, config.height, config.width)
    assert seen.any(0).all()
    assert not _breaks(seen, config)


def test_a_smaller_gap_is_found_out() -> None:
    """Units stand 4 columns apart, so with 4 columns less between the gratings one sees both."""
    config = PairsConfig(jitter=3)
    assert config.gap == 20
    assert _breaks(_seen(_plain("preresnet8"), config.height, config.width), config)
