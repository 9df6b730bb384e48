"""The best rank-one approximation against the singular value decomposition."""

import pytest
import torch

from scalednl.inspection import singular
from scalednl.inspection.factors import Factors
from scalednl.inspection.singular import rank_one
from tests.support import assert_close


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
