"""Every mistake gets a ValueError that repeats what was passed and says what would work."""

import pytest
import torch
from torch import nn

import scalednl
from scalednl.blocks.checks import check_planned
from scalednl.ops.planner import Choice

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"channels": 0}, "channels=0 must be a whole number of at least 1"),
        ({"channels": -8}, "channels=-8 must be"),
        ({"channels": 8.0}, r"channels=8\.0 must be a whole number"),
        ({"embed_channels": 0}, "embed_channels=0 must be"),
        ({"heads": 0}, "heads=0 must be"),
        ({"heads": 3}, "heads=3 does not divide embed_channels=8: use one of 1, 2, 4 or 8"),
        ({"heads": 4, "embed_channels": 6}, "heads=4 does not divide embed_channels=6"),
        ({"attention": "sofmax"}, "attention='sofmax' is unknown.*did you mean 'softmax'"),
        ({"attention": None}, "attention=None is unknown"),
        ({"view": "both"}, "view='both' is unknown: use 'base', 'magnitude' or 'direction'"),
        ({"order": "linear"}, "order='linear' is unknown: use 'auto'"),
        ({"order": "fused"}, "order='fused' cannot be used: for attention='softmax' only"),
        ({"order": "gram", "view": "direction"}, "takes a norm at every pixel"),
        ({"order": "gram", "key_pool": "after"}, "takes a maximum of phi and g"),
        (
            {"order": "rank_one"},
            "order='rank_one' cannot be used: for view='magnitude' only, where A has rank one; "
            "use 'auto', 'quadratic', 'associative' or 'gram'",
        ),
        (
            {"order": "rank_one", "view": "magnitude", "attention": "softmax"},
            "softmax needs a complete row of A",
        ),
        (
            {"order": "rank_one", "view": "magnitude", "key_pool": "after"},
            "takes a maximum of phi and g",
        ),
        ({"order": Choice("gram", True), "view": "direction"}, "order='gram' cannot be used"),
        ({"norm": nn.BatchNorm2d}, "must be True or False: for another norm"),
        ({"norm_init": float("nan")}, "norm_init=nan must be a number"),
        ({"order": "associative", "attention": "softmax"}, "use 'auto', 'quadratic' or 'fused'"),
        ({"memory": "low"}, "memory='low' is unknown: use 'auto' or 'lean'"),
        ({"key_pool": True}, "key_pool=True is unknown: use 'before' or 'after'"),
        ({"key_pool": "after", "key_pool_size": 0}, "key_pool_size=0 must be a whole number of"),
        (
            {"key_pool": "after", "key_pool_size": (2, 2, 2)},
            r"key_pool_size=\(2, 2, 2\) must have one number for each axis of \(height, width\)",
        ),
        ({"key_pool_size": 3}, "key_pool_size=3 has no effect with key_pool=None: use key_pool='b"),
        ({"init": "kaiming"}, "init='kaiming' is unknown.*'?he"),
        ({"init": -0.1}, r"init=-0\.1 is unknown"),
        ({"softmax_scale": "none"}, "softmax_scale='none' is unknown.*or a number"),
        ({"scale": False, "attention": "mean"}, "scale=False drops the 1/sqrt"),
        ({"scale": None}, "scale=None must be True or False"),
        ({"attention": ["softmax"]}, r"attention=\['softmax'\] is unknown"),
        ({"channels": torch.tensor([1, 2])}, r"channels=tensor\(\[1, 2\]\) must be a whole number"),
        ({"norm_layer": "bn"}, "norm_layer must be a function of the channels .* but got 'bn'"),
        ({"norm_layer": nn.BatchNorm2d(8)}, "norm_layer must be a function .* got BatchNorm2d"),
    ],
)
def test_options(options: dict[str, object], sentence: str) -> None:
    """Wrong options are refused when the block is made."""
    with pytest.raises(ValueError, match=sentence):
        scalednl.NonLocal2d(**{"channels": 8, **options})  # type: ignore[arg-type]


def test_misspelt_options_are_not_swallowed() -> None:
    """An option that does not exist is a TypeError, as Python has it."""
    with pytest.raises(TypeError, match="head"):
        scalednl.NonLocal2d(8, head=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("call", ["forward", "attention_map"])
@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (torch.randn(8, 4, 4), r"\(batch, channels, height, width\), but got 3 axes.*\(8, 4, 4\)"),
        (torch.randn(1, 8, 2, 4, 4), "but got 5 axes"),
        (torch.randn(2, 6, 4, 4), r"NonLocal2d\(channels=8\) got 6 channels: shape \(2, 6, 4, 4\)"),
        (torch.randn(2, 8, 0, 4), r"at least one pixel, but got shape \(2, 8, 0, 4\)"),
        (torch.ones(2, 8, 4, 4, dtype=torch.int64), "floating-point maps, but got torch.int64"),
        (torch.ones(2, 8, 4, 4, dtype=torch.complex64), "but got torch.complex64"),
        (torch.randn(2, 8, 4, 4).double(), "x is torch.float64"),
    ],
)
def test_inputs(call: str, x: torch.Tensor, sentence: str) -> None:
    """Wrong tensors are refused before anything is computed."""
    with pytest.raises(ValueError, match=sentence):
        getattr(scalednl.NonLocal2d(8), call)(x)


def test_other_dimensions_name_their_axes() -> None:
    """The one- and three-dimensional blocks say what they take."""
    with pytest.raises(ValueError, match=r"NonLocal1d takes \(batch, channels, length\)"):
        scalednl.NonLocal1d(8)(torch.randn(2, 8, 4, 4))
    with pytest.raises(ValueError, match=r"\(batch, channels, time, height, width\)"):
        scalednl.NonLocal3d(8).plan((2, 8, 4, 4))


def test_maps_too_small_to_pool() -> None:
    """Key pooling on a map of one row is refused and says what to do."""
    block = scalednl.NonLocal2d(8, key_pool="before")
    with pytest.raises(ValueError, match=r"pools by \(2, 2\), which a map of \(1, 4\) is too"):
        block(torch.randn(2, 8, 1, 4))
    block = scalednl.NonLocal2d(8, key_pool="after", key_pool_size=5)
    with pytest.raises(
        ValueError, match=r"pools by \(5, 5\), which a map of \(6, 4\) .* a smaller key_pool_size"
    ):
        block(torch.randn(2, 8, 6, 4))


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        (
            (2, 8, 4, 0),
            r"plan takes the shape of an input, such as x.shape, but got \(2, 8, 4, 0\)",
        ),
        ((2, 8, 4, 1.5), r"but got \(2, 8, 4, 1.5\)"),
        (4, "takes .batch, channels, height, width., but got 1 axes"),
        ((2, 8, 4), "takes .batch, channels, height, width., but got 3 axes"),
        ((2, 4, 4, 8), r"got 4 channels: shape \(2, 4, 4, 8\); it takes"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_shapes_that_cannot_be_planned(shape: tuple[int, ...], sentence: str) -> None:
    """They are refused as an input of that shape would be, for x and for keys."""
    with pytest.raises(ValueError, match=sentence):
        check_planned("NonLocal2d", shape, 8, 2)
    with pytest.raises(ValueError, match=sentence):
        scalednl.NonLocal2d(8).plan((2, 8, 4, 4), key_shape=shape)
