"""Every ablation against a block whose maps are formed and replaced literally."""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import scalednl
from scalednl.attentions import ATTENTIONS
from scalednl.blocks import NonLocalBlock
from scalednl.inspection import capture_attention, factors
from scalednl.inspection.ablations import (
    MAP_ABLATIONS,
    VIEW_ABLATIONS,
    Ablation,
    ablate,
    ablated_classes,
    ablations_of,
)
from scalednl.inspection.capture import nonlocal_blocks
from scalednl.lab.attention.scoring import ablation_errors
from scalednl.lab.attention.source import open_source
from scalednl.lab.training.evaluate import evaluate_source
from scalednl.ops.layout import rows_to_maps
from scalednl.ops.views import merge_heads
from tests.lab.attention.builders import made_run
from tests.support import assert_close, randomise, reference_block

OPTIONS: list[dict[str, Any]] = [
    *({"attention": a, "heads": heads} for a in ATTENTIONS for heads in (1, 2, 4)),
    {"attention": "softmax", "softmax_scale": "learned", "key_pool": "before"},
    {"attention": "softmax", "view": "direction", "bias": True},
    {"attention": "scaled", "view": "magnitude", "key_pool": "after"},
    {"attention": "scaled", "scale": False, "bias": True, "norm": False},
]


def _replaced(a: Tensor, ablation: Ablation) -> Tensor:
    """One map after an ablation, entry by entry."""
    if ablation == "column_mean":
        return a.mean(0, keepdim=True).expand_as(a)
    if ablation == "pair":
        key, query = a.mean(0, keepdim=True) - a.mean(), a.mean(1, keepdim=True) - a.mean()
        return a - key - query
    if ablation == "rank_one":
        u, sizes, v = torch.linalg.svd(a, full_matrices=False)
        return sizes[0] * u[:, :1] * v[:1]
    if ablation == "uniform":
        return torch.full_like(a, float(a.mean()))
    assert ablation == "unchanged"
    return a


def _literal(block: NonLocalBlock, x: Tensor, ablation: Ablation) -> Tensor:
    """x + norm(out(A' g)) with every map formed."""
    with capture_attention(block) as seen:
        block(x)
    maps = torch.stack(
        [
            torch.stack([_replaced(seen[0].map(i, h), ablation) for h in range(block.heads)])
            for i in range(len(x))
        ]
    )
    u = block.out(rows_to_maps(merge_heads(maps @ seen[0].g), x.shape[2:]))
    return x + (u if block.norm is None else block.norm(u))


@pytest.mark.parametrize("ablation", MAP_ABLATIONS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_ablation_is_that_of_the_complete_map(
    options: dict[str, Any], ablation: Ablation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The block's output with its map replaced, in float64 to 1e-9, maps formed a few at a time."""
    monkeypatch.setattr(factors, "CHUNK", 3000)
    block = randomise(scalednl.NonLocal2d(8, **{"heads": 2, **options})).double().eval()
    x = torch.randn(3, 8, 6, 5, dtype=torch.float64)
    truth = _literal(block, x, ablation).detach()
    assert_close(ablate(block, x, ablation), truth, 1e-9)


@torch.no_grad()
@pytest.mark.parametrize("ablation", [*MAP_ABLATIONS, *VIEW_ABLATIONS])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_padded_image_is_ablated_as_if_alone(attention: Any, ablation: Ablation) -> None:
    """Other keys and masks count: pixels that do not exist stay x, whatever they contain."""
    block = randomise(scalednl.NonLocal2d(8, attention=attention, heads=2)).double().eval()
    x, keys = torch.randn(2, 8, 4, 5).double(), torch.randn(2, 8, 3, 3).double()
    mask, key_mask = torch.zeros(2, 4, 5, dtype=torch.bool), torch.zeros(2, 3, 3, dtype=torch.bool)
    mask[0], mask[1, :3, :4] = True, True
    key_mask[0, :2], key_mask[1, :, :2] = True, True
    own = ablate(block, x, ablation, mask=mask)
    other = ablate(block, x, ablation, keys=keys)
    both = ablate(block, x, ablation, mask=mask, keys=keys, key_mask=key_mask)
    assert_close(own[1:, :, :3, :4], ablate(block, x[1:, :, :3, :4], ablation), 1e-9)
    assert_close(own[:1], ablate(block, x[:1], ablation), 1e-9)
    assert_close(other[1:], ablate(block, x[1:], ablation, keys=keys[1:]), 1e-9)
    assert_close(both[:1], ablate(block, x[:1], ablation, keys=keys[:1, :, :2]), 1e-9)
    small = ablate(block, x[1:, :, :3, :4], ablation, keys=keys[1:, :, :, :2])
    assert_close(both[1:, :, :3, :4], small, 1e-9)
    for z in (own, both):
        assert torch.equal(z[1][:, ~mask[1]], x[1][:, ~mask[1]])
    assert (other - ablate(block, x, ablation)).norm() > 1e-3 * x.norm()


@torch.no_grad()
@pytest.mark.parametrize("ablation", [*MAP_ABLATIONS, *VIEW_ABLATIONS])
def test_autocast_ablates_with_masks(ablation: Ablation) -> None:
    """In float32 but for the block's own products."""
    block = randomise(scalednl.NonLocal2d(8, heads=2)).eval()
    x, mask = torch.randn(2, 8, 4, 4), torch.ones(2, 4, 4, dtype=torch.bool)
    mask[1, 2:] = False
    truth = ablate(block, x, ablation, mask=mask)
    with torch.autocast("cpu", torch.bfloat16):
        found = ablate(block, x, ablation, mask=mask)
    assert_close(found.float(), truth, 0.05)


@torch.no_grad()
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("ablation", [*MAP_ABLATIONS, *VIEW_ABLATIONS])
def test_an_empty_batch_is_ablated(attention: Any, ablation: Ablation) -> None:
    """To an empty batch, with a mask and without."""
    block, x = scalednl.NonLocal2d(8, attention=attention).eval(), torch.randn(0, 8, 4, 4)
    for mask in (None, torch.ones(0, 4, 4, dtype=torch.bool)):
        assert ablate(block, x, ablation, mask=mask).shape == x.shape


@pytest.mark.usefixtures("unchecked_shapes")
def test_what_the_block_refuses_is_refused() -> None:
    """And names of ablations that are none."""
    block, x = scalednl.NonLocal2d(8).eval(), torch.randn(2, 8, 4, 4)
    with pytest.raises(ValueError, match=r"ablation='colum_mean' is unknown.*column_mean"):
        ablate(block, x, "colum_mean")  # type: ignore[arg-type]
    mask = torch.ones(2, 3, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match="key_mask belongs to keys"):
        ablate(block, x, "pair", key_mask=mask)
    with pytest.raises(ValueError, match=r"mask must be \(batch, \*space\)"):
        ablate(block, x, "pair", mask=mask)


class Averaged(nn.Module):
    """A block whose keys are another map, then the mean over pixels, called by argument names."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 4)
        self.block = randomise(scalednl.NonLocal2d(8))

    def forward(self, images: Tensor) -> Tensor:
        """Scores of four classes."""
        x = self.stem(images)
        return self.head(self.block(x=x, keys=x[:, :, ::2, ::2].relu()).mean((2, 3)))


@torch.no_grad()
def test_keys_of_a_call_are_those_that_are_ablated() -> None:
    """One row for all queries changes no mean over pixels, whatever the keys are."""
    model, images = Averaged().double().eval(), torch.randn(2, 3, 8, 8).double()
    unchanged, mean, uniform = ablated_classes(
        model, images, ["unchanged", "column_mean", "uniform"]
    )
    assert_close(mean, unchanged, 1e-10)
    assert_close(unchanged, model(images), 1e-12)
    assert (uniform - unchanged).abs().max() > 1e-3


@pytest.mark.parametrize("ablation", VIEW_ABLATIONS)
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("heads", [1, 4])
def test_a_view_is_that_of_a_block_with_it(attention: Any, ablation: Any, heads: int) -> None:
    """Magnitude and direction are the reference's block with that view and the same weights."""
    options: dict[str, Any] = {"attention": attention, "heads": heads}
    block = randomise(scalednl.NonLocal2d(8, **options)).double().eval()
    other = scalednl.NonLocal2d(8, view=ablation, **options).double().eval()
    other.load_state_dict(block.state_dict())
    x = torch.randn(2, 8, 4, 5, dtype=torch.float64)
    truth = reference_block(other, x).detach()
    assert_close(ablate(block, x, ablation), truth, 1e-9)
    assert (ablate(block, x, ablation) - block(x)).norm() > 1e-3 * block(x).norm()


def test_a_network_runs_all_ablations_at_once() -> None:
    """Every part of the output is that of the network whose blocks are all so ablated."""
    config = scalednl.StackConfig(
        scalednl.BlockConfig(attention="softmax", init=0.5, norm_init=1.0), count=2
    )
    model = scalednl.create_model("preresnet8", blocks=config).double().eval()
    names = ablations_of(model)
    x = torch.randn(2, 3, 12, 12, dtype=torch.float64)
    with torch.no_grad():
        found = ablated_classes(model, x, names)
        for part, name in zip(found, names, strict=True):
            other = copy.deepcopy(model)
            for path, block in nonlocal_blocks(model).items():
                other.get_submodule(path).forward = partial(ablate, block, ablation=name)
            assert_close(part, other(x), 1e-12, name)
            same = torch.allclose(part, model(x), rtol=1e-6)
            assert same == (name == "unchanged"), name


def test_errors_are_of_the_test_set(tmp_path: Path) -> None:
    """The unchanged network has the error that `scalednl eval` finds; fewer images can be used."""
    path = made_run(tmp_path / "run")
    errors = ablation_errors(open_source(path, images=2))
    assert errors is not None
    assert tuple(errors) == (*MAP_ABLATIONS, *VIEW_ABLATIONS)
    assert errors["unchanged"] == evaluate_source(path, None, None, None).test_error_pct
    fewer = ablation_errors(open_source(path, images=2, test_images=8))
    assert fewer is not None
    assert errors != fewer
    assert all(error * 8 % 100 == 0 for error in fewer.values())


def test_blocks_with_a_view_have_no_other_view(tmp_path: Path) -> None:
    """A network trained with a view is not tested with another one."""
    path = made_run(tmp_path / "run", view="direction")
    errors = ablation_errors(open_source(path, images=2))
    assert errors is not None
    assert tuple(errors) == MAP_ABLATIONS


@torch.no_grad()
def test_any_network_is_ablated_by_hooks() -> None:
    """To the scores that a network of ours has, whose first layers run once."""
    model = scalednl.create_model("preresnet8", 5, scalednl.StackConfig(count=2))
    randomise(model).eval()
    images = torch.randn(3, 3, 16, 16)
    names = ablations_of(model)
    assert ablations_of(torch.nn.Sequential(model)) == names
    found = ablated_classes(torch.nn.Sequential(model), images, names)
    assert_close(found, ablated_classes(model, images, names), 1e-5)
    assert len({tuple(scores.flatten().tolist()) for scores in found}) == len(names)
