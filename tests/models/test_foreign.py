"""Names of foreign blocks, and their weights as ours."""

import pytest
import torch
from torch import Tensor, nn

from scalednl.models.foreign import (
    LAYOUTS,
    ConversionError,
    Layout,
    adapt,
    find_names,
    names_alike,
    names_of_module,
    names_of_state,
)
from tests.models.foreign_blocks import NONLocalBlock, over
from tests.support import assert_close, randomise


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.source)
def test_every_layout_is_found_by_its_own_names(layout: Layout) -> None:
    """The parts have the names of the table, and our names lead back; other keys have none."""
    stems = {part: getattr(layout, part)[0] for part in ("theta", "phi", "g", "out")}
    names = find_names(list(stems.values()), layout.norm[:1], ["gamma"])
    assert names is not None
    assert names.parts == stems
    assert names.norm == (layout.norm[0] if layout.norm else None)
    for part, stem in stems.items():
        assert names.ours(f"{stem}.weight") == f"{part}.weight"
    assert names.ours("gamma") == "gamma"
    assert names.ours("fc.weight") is None


def test_names_say_whether_keys_are_pooled() -> None:
    """phi.0 is a convolution before a pooling; without such names nothing is said."""
    plain, pooled = (
        names_of_module(NONLocalBlock(8, over(1), pool=pool)) for pool in (None, nn.MaxPool2d(2))
    )
    assert plain is not None
    assert pooled is not None
    assert (plain.pools_by_name, pooled.pools_by_name) == (False, True)
    timm = find_names(["t", "p", "g", "z"], [], [])
    assert timm is not None
    assert timm.pools_by_name is None


def test_a_module_and_its_weights_have_the_same_names() -> None:
    """A checkpoint leads to the same parts as the module that it was saved from."""
    block = NONLocalBlock(8, over(1))
    assert names_of_state(block.state_dict()) == names_of_module(block)
    assert names_of_module(nn.Sequential(nn.Conv2d(3, 8, 1))) is None


def test_a_block_of_other_kinds_is_named_by_its_children() -> None:
    """Children called theta, phi and g that contain convolutions look like a block."""
    alike = nn.Module()
    for name in ("theta", "phi", "g"):
        alike.add_module(name, nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU()))
    assert names_alike(alike) == ["theta", "phi", "g"]
    alike.g = nn.Identity()
    assert names_alike(alike) == []


def _weights(wide: int, narrow: int, channels: int = 6) -> dict[str, Tensor]:
    shapes = {"theta": narrow, "phi": narrow, "g": wide}
    found = {f"{n}.weight": torch.randn(e, channels, 1, 1) for n, e in shapes.items()}
    return {**found, "out.weight": torch.randn(channels, wide, 1, 1)}


def _branch(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """out((theta . phi) g) on pixels, without any factor."""
    theta, phi, g, out = (weights[f"{n}.weight"].flatten(1) for n in ("theta", "phi", "g", "out"))
    return out @ (g @ x) @ ((theta @ x).mT @ (phi @ x)).mT


@pytest.mark.parametrize(("wide", "narrow"), [(4, 4), (6, 2), (2, 6)])
def test_adapted_weights_compute_the_same(wide: int, narrow: int) -> None:
    """Widths are made equal by zero channels; gamma and a factor move into out."""
    weights, x = _weights(wide, narrow), torch.randn(6, 10)
    gamma = torch.randn(6)
    new = adapt(weights, gamma, normed=False, factor=3.0)
    assert {len(new[f"{name}.weight"]) for name in ("theta", "phi", "g")} == {max(wide, narrow)}
    assert_close(_branch(new, x), 3 * gamma[:, None] * _branch(weights, x), 1e-5)
    kept = adapt(weights, None, normed=False)
    assert (kept["out.weight"] is weights["out.weight"]) == (wide >= narrow)


def test_gamma_goes_into_the_norm_and_a_missing_out_is_the_identity() -> None:
    """With a norm only its weight and bias are multiplied."""
    weights = randomise(NONLocalBlock(4, over(1), inner=4)).state_dict()
    ours = {f"{n}.weight": weights[f"{n}.weight"] for n in ("theta", "phi", "g")}
    ours |= {"norm.weight": torch.ones(4), "norm.bias": torch.full((4,), 2.0)}
    new = adapt(ours, torch.tensor(5.0), normed=True)
    assert torch.equal(new["out.weight"].flatten(1), torch.eye(4))
    assert new["norm.weight"].tolist() == [5] * 4
    assert new["norm.bias"].tolist() == [10] * 4
    del ours["norm.weight"]
    with pytest.raises(ConversionError, match="a norm without weights by gamma"):
        adapt(ours, torch.tensor(5.0), normed=True)


def test_widths_that_do_not_belong_together_are_named() -> None:
    """theta and phi must agree, and out must lead back from g."""
    weights = _weights(4, 4)
    with pytest.raises(ConversionError, match="theta of 4 channels but phi of 3"):
        adapt({**weights, "phi.weight": torch.ones(3, 6, 1, 1)}, None, normed=False)
    with pytest.raises(ConversionError, match="an output of 5 to 6, which do not belong"):
        adapt({**weights, "out.weight": torch.ones(6, 5, 1, 1)}, None, normed=False)
