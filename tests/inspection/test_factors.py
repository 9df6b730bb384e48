"""Means, rows and products of maps by their factors, against the maps themselves."""

import pytest
import torch
from torch import Tensor

from scalednl.inspection import factors
from scalednl.inspection.factors import Factors
from tests.support import assert_close


def _maps(kind: str, exist: Tensor | None = None) -> Factors:
    """Two by three maps of 7 queries and 5 keys; "softmax", "product" or "mean added"."""
    theta, phi = (torch.randn(2, 3, n, 4, dtype=torch.float64) for n in (7, 5))
    if exist is not None:
        phi = phi.masked_fill(~exist[:, None], 0)
    factor = torch.rand(2, 3, dtype=torch.float64) + 0.5
    return Factors(theta, phi, factor, kind == "softmax", kind == "mean added", exist)


KINDS = ("softmax", "product", "mean added")
EXIST = (None, torch.tensor([1, 0, 1, 1, 0]).bool(), torch.zeros(5).bool())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exist", EXIST, ids=["all", "some", "none"])
def test_the_map_by_its_definition(kind: str, exist: Tensor | None) -> None:
    """f theta_i . phi_j over the keys that exist, its softmax, or 1 / N added; 0 elsewhere."""
    maps = _maps(kind, exist)
    here = torch.ones(5).bool() if exist is None else exist
    logits = torch.einsum("xyqc,xykc,xy->xyqk", maps.theta, maps.phi, maps.factor)[..., here]
    if kind == "softmax":
        logits = logits.softmax(-1)
    if kind == "mean added" and here.any():
        logits = logits + 1 / int(here.sum())
    truth = torch.zeros(2, 3, 7, 5).double()
    truth[..., here] = logits
    assert_close(maps.complete(), truth, 1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exist", EXIST, ids=["all", "some", "none"])
def test_what_follows_without_the_map(
    kind: str, exist: Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Means of rows and columns, chunks, groups, single maps and the product are the map's."""
    monkeypatch.setattr(factors, "CHUNK", 35)
    maps = _maps(kind, exist)
    a = maps.complete()
    assert_close(maps.row_mean(), a.mean(-1), 1e-12)
    assert_close(maps.column_mean(), a.mean(-2), 1e-12)
    chunks = list(maps.chunks())
    assert len(chunks) == 7
    assert torch.equal(torch.cat(chunks, -2), a)
    groups = [group.complete() for group in maps.groups()]
    assert len(groups) == 6
    assert_close(torch.cat(groups).view_as(a), a, 1e-12)
    assert_close(maps.at(1, 2).rows([4, 0]), a[1, 2, [4, 0]], 1e-12)
    if kind != "softmax":
        product = maps.as_product()
        assert not product.mean_added
        assert_close(product.complete(), a, 1e-12)


def test_one_bad_number_marks_its_map_alone() -> None:
    """Finite is said map by map, whether theta, phi or the factor is not."""
    maps = _maps("product")
    maps.theta[0, 1, 3, 2] = torch.nan
    maps.phi[1, 0, 0, 0] = torch.inf
    maps.factor[1, 2] = torch.nan
    assert maps.finite().tolist() == [[True, False, True], [False, True, False]]


def test_sizes() -> None:
    """Queries, keys and entries are those of one map; a map above the limit is refused by size."""
    maps = _maps("product")
    assert (maps.queries, maps.keys, maps.entries) == (7, 5, 35)
    assert maps.double().theta.dtype == torch.float64
    large = Factors(torch.zeros(8192, 1), torch.zeros(4096, 1), torch.ones(()), False)
    assert large.is_large
    with pytest.raises(ValueError, match=r"8,192 queries x 4,096 keys .* \(128 MiB\).*use rows"):
        large.complete()
    assert large.rows([5]).shape == (1, 4096)
