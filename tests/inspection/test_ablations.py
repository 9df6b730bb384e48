"""Every ablation against a block whose maps are formed and replaced literally."""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import scalednl
from scalednl.blocks import NonLocalBlock
from scalednl.inspection import capture_attention, factors, singular
from scalednl.inspection.ablations import (
    MAP_ABLATIONS,
    VIEW_ABLATIONS,
    Ablation,
    ablate,
    ablated_classes,
    ablations_of,
)
from scalednl.inspection.capture import nonlocal_blocks
from scalednl.inspection.factors import Factors
from scalednl.inspection.singular import rank_one
from scalednl.lab.attention.scoring import ablation_errors
from scalednl.lab.attention.source import open_source
from scalednl.lab.training.evaluate import evaluate_source
from scalednl.ops.layout import rows_to_maps
from scalednl.ops.views import merge_heads
from scalednl.options import ATTENTIONS
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


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("sizes", [(30, 70), (70, 30), (3, 5), (1, 4), (6, 1)])
def test_rank_one_is_the_first_singular_value(softmax: bool, sizes: tuple[int, int]) -> None:
    """Energy and map agree with the singular value decomposition, to 1e-9."""
    theta, phi = (torch.randn(2, 3, n, 6, dtype=torch.float64) for n in sizes)
    maps = Factors(theta, phi, torch.rand(2, 3, dtype=torch.float64) + 0.5, softmax)
    found, whole = rank_one(maps), maps.complete()
    values = torch.linalg.svdvals(whole)
    assert_close(found.energy, values[..., 0] ** 2 / values.square().sum(-1), 1e-9)
    u, sizes_, v = torch.linalg.svd(whole, full_matrices=False)
    truth = sizes_[..., :1, None] * u[..., :1] * v[..., :1, :]
    assert_close(found.left[..., None] * found.right[..., None, :], truth, 1e-9)


def test_rank_one_of_equal_singular_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The identity has energy 1 / n; where iterations do not suffice, eigenvectors are used."""
    a = torch.eye(20, dtype=torch.float64)[None]
    assert float(singular.iterated(a).energy) == pytest.approx(1 / 20)
    b = torch.rand(2, 20, 20, dtype=torch.float64)
    truth = singular.iterated(b)
    monkeypatch.setattr(singular, "STEPS", 0)
    assert_close(singular.iterated(b).energy, truth.energy, 1e-9)
    assert float(singular.iterated(torch.zeros(1, 3, 4)).energy) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rank_one_of_attention_to_one_key(dtype: torch.dtype) -> None:
    """Rows that differ from one key by subnormal numbers only have one singular value."""
    tiny = torch.finfo(dtype).tiny ** 0.5
    a = torch.zeros(1, 144, 144, dtype=dtype)
    a[..., 3] = 1
    a[..., 4:9] = tiny * torch.rand(144, 5, dtype=dtype)
    found = singular.iterated(a)
    assert float(found.energy) == pytest.approx(1)
    assert found.right[0].abs().argmax() == 3


def test_float32_is_near_float64() -> None:
    """The energy of softmax maps in float32 is right to 1e-5."""
    theta, phi, factor = torch.randn(8, 100, 6), torch.randn(8, 100, 6), torch.rand(8) * 3
    single = rank_one(Factors(theta, phi, factor, True)).energy
    double = rank_one(Factors(theta.double(), phi.double(), factor.double(), True)).energy
    assert (single - double).abs().max() < 1e-5


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
    assert errors["unchanged"] == evaluate_source(path, None, None, None)["test_error_pct"]
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
