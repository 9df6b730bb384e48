"""Other norms than batch norm, given as a function of the channels."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

import scalednl
from tests.support import assert_close, randomise

LAYERS: dict[str, Callable[[int], nn.Module]] = {
    "group": partial(nn.GroupNorm, 4),
    "sync": nn.SyncBatchNorm,
    "instance": partial(nn.InstanceNorm2d, affine=True),
    "batch": partial(nn.BatchNorm2d, eps=1e-3),
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_the_layer_is_used_and_starts_from_norm_init(layer: Callable[[int], nn.Module]) -> None:
    """A new block is the identity with any norm; afterwards it is x + norm(out(y))."""
    block = scalednl.NonLocal2d(8, norm_layer=layer)
    assert type(block.norm) is type(layer(8))
    x = torch.randn(2, 8, 5, 5)
    block.eval()
    assert torch.equal(block(x), x)
    randomise(block)
    plain = scalednl.NonLocal2d(8, norm=False)
    plain.load_state_dict(block.state_dict(), strict=False)
    assert block.norm is not None
    assert_close(block(x), x + block.norm(plain(x) - x), 1e-4)


def test_batch_norm_from_a_layer_still_folds() -> None:
    """A plain batch norm folds, whoever made it."""
    block = scalednl.NonLocal2d(64, norm_layer=LAYERS["batch"])
    assert block.plan((8, 64, 64, 64)).fold


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_norm_that_autocast_runs_in_float32_keeps_the_dtype_of_x(dtype: torch.dtype) -> None:
    """z of a half-precision x is in half precision, though group norm returns float32."""
    block = scalednl.NonLocal2d(8, norm_layer=LAYERS["group"], norm_init=1.0)
    with torch.autocast("cpu", dtype=dtype):
        assert block(torch.randn(2, 8, 4, 4).to(dtype)).dtype == dtype


@pytest.mark.usefixtures("unchecked_shapes")
def test_layers_that_cannot_be_used_are_named() -> None:
    """A norm without a weight cannot start from 0; norm=False excludes a layer."""
    with pytest.raises(ValueError, match=r"norm_init=0.0 needs a norm with a weight.*Identity"):
        scalednl.NonLocal2d(8, norm_layer=nn.Identity)
    assert isinstance(
        scalednl.NonLocal2d(8, norm_layer=nn.Identity, norm_init=1.0).norm, nn.Identity
    )
    with pytest.raises(ValueError, match="exclude each other"):
        scalednl.NonLocal2d(8, norm=False, norm_layer=nn.BatchNorm2d)
    with pytest.raises(ValueError, match="must return a module, but returned 8"):
        scalednl.NonLocal2d(8, norm_layer=int)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pass norm_layer"):
        scalednl.NonLocal2d(8, norm="group")  # type: ignore[arg-type]
