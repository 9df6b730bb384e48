"""Shapes of networks from their names are those of the networks."""

import subprocess
import sys

import pytest
import torch

from scalednl import StackConfig, create_model, list_models
from scalednl.networks import NetworkShape, network_shape


@pytest.mark.parametrize("name", [*list_models(), "preresnet14", "preresnet47", "wrn10_2"])
def test_shapes_are_those_of_the_networks(name: str) -> None:
    """Stages, their depths and channels, and the channels of blocks in any stage agree."""
    shape = network_shape(name)
    with torch.device("meta"):
        model = create_model(name)
        assert tuple(len(stage) for stage in model.stages) == shape.depths  # type: ignore[arg-type]
        x = model.stem(torch.empty(1, 3, 16, 16))
        assert x.shape[1] == shape.stem_channels
        for stage, width in zip(model.stages, shape.widths, strict=True):
            x = stage(x)
            assert x.shape[1] == width
        for number, width in enumerate(shape.widths, start=1):
            stack = create_model(name, blocks=StackConfig(count=1, stage=number)).stack
            assert stack is not None
            (channels,) = (m.channels for m in stack.modules() if hasattr(m, "embed_channels"))
            assert channels == width


def test_a_shape_is_read_from_its_name() -> None:
    """One network of each kind, as the paper describes it."""
    assert network_shape("preresnet20") == NetworkShape("basic", (3, 3, 3), (16, 32, 64))
    assert network_shape("preresnet56").widths == (64, 128, 256)
    assert network_shape("wrn28_10") == NetworkShape("wide", (4, 4, 4), (160, 320, 640))
    tiny = NetworkShape("bottleneck", (3, 4, 6, 3), (64, 128, 256, 512), 64, 7)
    assert network_shape("preresnet50_tiny") == tiny


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("preresnet57", "preresnet57 does not exist.*near it are 56 and 65"),
        ("preresnet2", "near it are 8 and 14"),
        ("wrn29_10", r"must be 6n \+ 4; near it are 28 and 34"),
        ("preresnet10001", "must be at most 10000"),
        ("presnet56", "unknown model 'presnet56'; did you mean"),
        ("zzz", "use one of preresnet8, "),
    ],
)
def test_impossible_names_are_refused(name: str, sentence: str) -> None:
    """The sentence names depths or names near the one that was given."""
    with pytest.raises(ValueError, match=sentence):
        network_shape(name)


def test_shapes_need_no_torch() -> None:
    """The planning of runs and the report read shapes without loading torch."""
    code = (
        "import sys, scalednl.networks, scalednl.lab.config.data_sets\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False False\n"
